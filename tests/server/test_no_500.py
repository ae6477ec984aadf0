"""No request and no setting of the database leads to a 500."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import psycopg
import pytest
from tests.server.scenes import Scene, example_of
from tests.server.test_scopes_matrix import ALL, COOKIE, HTML, STREAMS

from penstock.db.embedded import EmbeddedPostgres
from penstock.server.app import endpoints
from penstock.server.auth import tokens
from penstock.server.ui.pages import queue_settings

ENDPOINTS = {f"{each.method} {each.path}": each for each in endpoints()}
Open = Callable[..., httpx.Client]
MakeKey = Callable[..., str]
# None of these is what a parameter should be.
NONSENSE = {
    "nul": "\0",
    "nul in text": "a\0b",
    "digits": "9" * 5000,
    "negative": "-1",
    "not a number": "nan",
    "infinite": "1e999",
    "not ASCII": "é☃\U0001f600",
    "not ASCII digits": "١٢٣",
    "surrogates": "%ED%A0%80",
    "long": "x" * 20_000,
    "quotes": "'\"\\;--%_",
    "newlines": "a\r\nSet-Cookie: x=1",
    "JSON": '{"a": [1e400]}',
    "deep": "[" * 20_000,
}
_SETTINGS = [*queue_settings.WHOLE, "dlq_enabled", "backoff_kind"]
_SETTINGS += [f"backoff_{name}" for name in queue_settings.BACKOFF]
_SCHEDULE = ["queue", "cron", "time_zone", "missed", "payload"]
# What pages read from their address or form.
PARAMETERS = {
    "/messages": ["state", "queue", "key", "error", "worker", "older", "younger", "place"],
    "/messages/{id}": ["everywhere"],
    "/queues": ["q", "sort", "only", "after"],
    "/dead-letters": ["queue"],
    "/analytics": ["range", "queue"],
    "/activity": ["actor", "target", "before"],
    "/find": ["q"],
    "/queues/create": ["queue", *_SETTINGS],
    "/queues/{name}/settings": _SETTINGS,
    "/queues/{name}/purge": ["limit"],
    "/queues/{name}/redrive": ["id", "id_from", "id_to", "error_like", "per_second", "limit"],
    "/queues/{name}/drop": ["confirm"],
    "/messages/cancel": ["id"],
    "/messages/{id}/replay": ["queue"],
    "/schedules/create": ["name", *_SCHEDULE],
    "/schedules/{name}/edit": _SCHEDULE,
    "/services/{service}": ["status"],
    "/services/add": ["name", "dsn", "password"],
    "/services/{service}/change": ["dsn", "password"],
    "/subscriptions/create": ["name", "queue", "url", "concurrency", "timeout_seconds"],
    "/login": ["key", "link", "next"],
    "/theme": ["theme", "next"],
}


@pytest.fixture(scope="module")
def admin_of_a_server(
    server: EmbeddedPostgres, template: str, serve: Any
) -> Iterator[tuple[httpx.Client, psycopg.Connection[Any], str]]:
    name = f"nonsense_{uuid4().hex[:12]}"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"create database {name} template {template}")
        running = serve(server.dsn_of(name), upkeep="off")
        key = running.make_key("admin", "admin")
        with (
            httpx.Client(base_url=running.url, timeout=60) as client,
            psycopg.connect(server.dsn_of(name), autocommit=True) as db,
        ):
            client.headers["Authorization"] = f"Bearer {key}"
            client.post("/login", data={"key": key})
            row = db.execute("select secret from penstock.server_secret").fetchone()
            assert row is not None
            csrf = tokens.sign(row[0], "csrf", client.cookies[COOKIE]).hex()
            yield client, db, csrf
        running.stop()
        admin.execute(f"drop database {name} with (force)")


@pytest.mark.parametrize("kind", NONSENSE)
def test_no_nonsense_in_a_query_a_path_a_form_or_a_body_is_a_500(
    admin_of_a_server: Any, kind: str
) -> None:
    client, db, csrf = admin_of_a_server
    value = NONSENSE[kind]
    scene = Scene(db, f"q-{uuid4().hex[:8]}")
    found: dict[str, int] = {}
    for route in ALL:
        method = route.split(" ")[0]
        if route in STREAMS or route == "POST /logout" or method == "VERB":
            continue
        for call in calls(route, scene, value, csrf):
            answer = client.request(method, **call)
            if answer.status_code >= 500:
                found[f"{route} {str(call)[:200]}"] = answer.status_code
    assert found == {}


def calls(route: str, scene: Scene, value: str, csrf: str) -> Iterator[dict[str, Any]]:
    """Calls of a route with the value in one place each."""
    method, path = route.split(" ")
    yield {"url": re.sub(r"{\w+}", quote(value[:5000], safe="%"), path)}
    if route in HTML and method == "GET":
        # Its JSON twin is the same handler; what only the page reads is this.
        yield {"url": example_of(route, scene).path, "params": {"done": value[:5000]}}
        return
    example, endpoint = example_of(route, scene), ENDPOINTS.get(route)
    if endpoint is None:
        page = re.sub(r"\.json$", "", path)
        for name in PARAMETERS.get(page, []):
            given = {name: value, "csrf": csrf}
            if method == "GET":
                yield {"url": example.path, "params": {**example.query, name: value[:5000]}}
            else:
                yield {"url": example.path, "data": {**(example.form or {}), **given}}
        return
    for name in getattr(endpoint.query, "__struct_fields__", ()):
        yield {"url": example.path, "params": {**example.query, name: value[:5000]}}
    for name in getattr(endpoint.body, "__struct_fields__", ()):
        yield {"url": example.path, "json": {**example.json, name: value}}


READS = {"GET /api/stats", "GET /queues.json", "GET /api/messages", "GET /healthz/live"}


def test_a_read_only_database_is_a_503_for_what_writes(
    dsn: str, db: Any, start_server: Any, open_client: Open, make_key: MakeKey
) -> None:
    key, scene = make_key("admin", "admin"), Scene(db, "orders").everything()
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    warm = start_server(upkeep="off")
    before = open_client(key, warm)
    assert before.get("/api/stats").status_code == 200
    before.post("/login", data={"key": key})
    session = {"Cookie": f"{COOKIE}={before.cookies[COOKIE]}"}
    db.execute(f"alter database {name} set default_transaction_read_only = on")
    # Sessions that are open continue; the server opens new ones.
    db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )
    cold = start_server(upkeep="off")
    for running in (warm, cold):
        client = open_client(key, running)
        await_ready(client)
        found = {}
        for route in ALL:
            method, path = route.split(" ")
            if route in STREAMS or route in HTML or path.startswith(("/log", "/theme")):
                continue
            example = example_of(route, scene)
            answer = client.request(
                "POST" if method == "VERB" else method, example.path, json=example.json,
                params=example.query, headers=example.headers,
            )  # fmt: skip
            found[route] = answer
        assert {r: a.text for r, a in found.items() if a.status_code == 500} == {}
        for route in ("POST /api/messages", "POST /api/topics/{topic}/pause", "VERB enqueue"):
            assert found[route].status_code == 503, route
            assert int(found[route].headers["retry-after"]) > 0
        for route in READS:
            assert found[route].status_code == 200, f"{route}: {found[route].text}"
        assert client.get("/queues", headers=session).status_code == 200
        assert client.post("/login", data={"key": key}).status_code == 303
        assert client.post("/logout", headers=session).status_code == 503


def await_ready(client: httpx.Client) -> None:
    """Until the server has new connections."""
    while client.get("/healthz/ready").status_code != 200:
        pass


# Settings that change neither what a statement may do nor how long it may take.
FORMS = [
    "DateStyle = 'German, DMY'",
    "IntervalStyle = 'sql_standard'",
    "TimeZone = 'Asia/Kathmandu'",
    "bytea_output = 'escape'",
    "extra_float_digits = -15",
    "search_path = 'nowhere'",
    "client_encoding = 'LATIN1'",
    "standard_conforming_strings = off",
    "row_security = off",
    "work_mem = '64kB'",
    "max_parallel_workers_per_gather = 0",
    "jit = on",
    "plan_cache_mode = 'force_custom_plan'",
]


@pytest.mark.parametrize(
    "settings",
    [
        ["statement_timeout = '1ms'"],
        ["lock_timeout = '1ms'"],
        ["idle_in_transaction_session_timeout = '1ms'"],
        ["default_transaction_isolation = 'serializable'"],
        ["temp_file_limit = 0"],
        pytest.param(FORMS, id="forms"),
        *(pytest.param([each], marks=pytest.mark.slow) for each in FORMS),
    ],
)
def test_no_setting_of_the_database_is_a_500(
    dsn: str, db: Any, start_server: Any, open_client: Open, make_key: MakeKey, settings: list[str]
) -> None:
    key, scene = make_key("admin", "admin"), Scene(db, "orders").everything()
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    # With so short a time no server starts: one that runs has it from its next connections on.
    runs_before = "statement_timeout" in settings[0]
    running = start_server(upkeep="off") if runs_before else None
    for setting in settings:
        db.execute(f"alter database {name} set {setting}")
    if runs_before:
        db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    client = open_client(key, running or start_server(upkeep="off"))
    found = {}
    for route in ALL:
        method, path = route.split(" ")
        if route in STREAMS or route in HTML or path.startswith(("/log", "/theme")):
            continue
        example = example_of(route, scene)
        answer = client.request(
            "POST" if method == "VERB" else method, example.path, json=example.json,
            params=example.query, headers=example.headers,
        )  # fmt: skip
        if answer.status_code == 500:
            found[route] = answer.text
    assert found == {}


def test_a_privilege_that_the_server_lacks_is_no_fault_of_the_key(
    db: Any, http: httpx.Client
) -> None:
    db.execute("create or replace function penstock.fire_schedules(out fired integer, "
               "out next_fire_at timestamptz) language plpgsql as "
               "$$begin raise insufficient_privilege; end$$")  # fmt: skip
    example = example_of("VERB fire_schedules", Scene(db, "orders"))
    answer = http.post(example.path, json=example.json, headers=example.headers)
    assert (answer.status_code, answer.json()["code"]) == (503, "DatabasePermissionError")


def test_where_the_database_is_is_told_to_nobody(
    server: EmbeddedPostgres, make_database: Any, template: str, start_server: Any,
    open_client: Open, dsn: str, make_key: MakeKey,
) -> None:  # fmt: skip
    running = start_server(upkeep="off")
    client = open_client(make_key("admin", "admin"), running)
    assert client.get("/api/stats").status_code == 200
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    place = str(psycopg.conninfo.conninfo_to_dict(dsn)["host"])
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"alter database {name} allow_connections false")
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name]
        )
        anybody, database = open_client(running=running), running.server.context.database
        try:
            while place not in str(database._away):  # what is not to be told
                anybody.get("/healthz/ready")
            running.server.context.auth.forget()
            answers = [anybody.get("/healthz/ready"), anybody.get("/healthz/ready")]
            answers += [client.get("/api/stats"), client.get("/queues.json")]
            unknown = {"Authorization": f"Bearer psk_{'a' * 12}_{'b' * 43}"}
            answers.append(anybody.get("/api/stats", headers=unknown))
            answers.append(anybody.get("/queues", headers={"Cookie": f"{COOKIE}=a.b"}))
            answers.append(anybody.get("/login?link=a.b"))
            for answer in answers:
                assert answer.status_code == 503, answer.text
                assert place not in answer.text
                assert name not in answer.text
        finally:
            admin.execute(f"alter database {name} allow_connections true")
