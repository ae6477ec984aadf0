"""Who may call, and what they may do."""

from __future__ import annotations

import base64
import hashlib
import re
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from penstock.commands.write.keys import revoke_key
from penstock.errors import (
    ApiKeyExistsError,
    ApiKeyNotFoundError,
    ConfigurationError,
    InvalidValueError,
)
from penstock.model.access import parse_grants
from penstock.server.app import endpoints
from penstock.server.auth.api_keys import key_id, new_key
from penstock.server.auth.authentication import Failures
from penstock.server.auth.first_key import FILE, admin_key
from penstock.server.settings import ServerSettings

Open = Callable[..., httpx.Client]
MakeKey = Callable[..., str]
OPEN = {"/healthz/live", "/healthz/ready", "/openapi.json", "/docs"}


def test_every_route_but_the_open_ones_wants_credentials(open_client: Open) -> None:
    anybody = open_client()
    for each in endpoints():
        answer = anybody.request(each.method, re.sub(r"{\w+}", "1", each.path))
        if each.path in OPEN:
            assert answer.status_code == 200, each.path
            continue
        assert answer.status_code == 401, each.path
        assert answer.headers["content-type"] == "application/problem+json"
        assert "Basic" in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "credentials",
    [
        "Bearer nonsense",
        "Bearer psk_aaaaaaaaaaaa_" + "b" * 43,
        "Basic !!!",
        "Basic YWRtaW46d3Jvbmc=",
        "Basic bm9ib2R5OngK",
        "Digest x",
        "",
    ],
)
def test_unknown_credentials_are_refused(open_client: Open, http: httpx.Client, credentials: str):
    answer = open_client().get("/api/stats", headers={"Authorization": credentials})
    assert answer.status_code == 401


def test_a_key_works_as_bearer_and_as_password_of_its_name(open_client: Open, make_key: MakeKey):
    key = make_key("reader", "read")
    anybody = open_client()
    assert open_client(key).get("/api/stats").status_code == 200
    assert anybody.get("/api/stats", auth=("reader", key)).status_code == 200
    assert anybody.get("/api/stats", auth=("", key)).status_code == 200
    assert anybody.get("/api/stats", auth=("writer", key)).status_code == 401


def test_scopes_and_patterns_decide_what_a_key_may_do(
    open_client: Open, make_key: MakeKey, http: httpx.Client
) -> None:
    for topic in ("orders-eu", "emails"):
        http.put(f"/api/topic-configs/{topic}", json={}).raise_for_status()
    producer = open_client(make_key("producer", "enqueue:orders-*"))
    consumer = open_client(make_key("consumer", "consume:orders-*", "read:orders-*"))
    message = {"json": 1}
    assert producer.post("/api/messages", json={"topic": "orders-eu", **message}).is_success
    refused = producer.post("/api/messages", json={"topic": "emails", **message})
    assert (refused.status_code, refused.json()["code"]) == (403, "PermissionDeniedError")
    assert producer.post("/api/messages/dequeue", json={"topic": "orders-eu"}).status_code == 403
    assert consumer.post("/api/messages/dequeue", json={"topic": "emails"}).status_code == 403
    assert consumer.get("/api/stats").json()["items"][0]["topic"] == "orders-eu"
    assert len(consumer.get("/api/stats").json()["items"]) == 1
    assert consumer.get("/api/stats?topic=emails").status_code == 403
    assert consumer.post("/api/topics/orders-eu/pause").status_code == 403
    [lease] = consumer.post("/api/messages/dequeue", json={"topic": "orders-eu"}).json()["messages"]
    proof = {"lease_token": lease["lease_token"]}
    assert consumer.post(f"/api/messages/{lease['id']}/ack", json=proof).status_code == 200


def test_a_key_for_some_queues_cannot_settle_messages_of_others(
    open_client: Open, make_key: MakeKey, http: httpx.Client
) -> None:
    http.post("/api/messages", json={"topic": "emails", "json": 1}).raise_for_status()
    [lease] = http.post("/api/messages/dequeue", json={"topic": "emails"}).json()["messages"]
    consumer = open_client(make_key("consumer", "consume:orders-*"))
    proof = {"lease_token": lease["lease_token"]}
    for verb in ("ack", "nack", "extend", "reject", "snooze"):
        refused = consumer.post(f"/api/messages/{lease['id']}/{verb}", json=proof)
        assert refused.status_code == 403, verb
    assert http.post(f"/api/messages/{lease['id']}/ack", json=proof).status_code == 200


def test_a_key_for_some_queues_cannot_copy_messages_of_others_into_its_own(
    open_client: Open, make_key: MakeKey, http: httpx.Client
) -> None:
    for topic in ("emails", "orders-eu"):
        http.put(f"/api/topic-configs/{topic}", json={"keep_history": 1}).raise_for_status()
    http.post("/api/messages", json={"topic": "emails", "json": 1}).raise_for_status()
    [lease] = http.post("/api/messages/dequeue", json={"topic": "emails"}).json()["messages"]
    proof = {"lease_token": lease["lease_token"]}
    http.post(f"/api/messages/{lease['id']}/ack", json=proof).raise_for_status()
    replay = f"/api/messages/{lease['id']}/replay"
    operator = open_client(make_key("operator", "operate:orders-*"))
    assert operator.post(replay, json={"topic": "orders-eu"}).status_code == 403
    both = open_client(make_key("both", "operate:orders-*", "operate:emails"))
    assert both.post(replay, json={"topic": "orders-eu"}).status_code == 201


def test_the_servers_own_queues_are_for_admins(open_client: Open, make_key: MakeKey) -> None:
    producer = open_client(make_key("producer", "enqueue", "consume", "operate"))
    message = {"topic": "penstock.tasks", "json": 1}
    assert producer.post("/api/messages", json=message).status_code == 403
    assert producer.post("/api/topics/penstock.tasks/purge").status_code == 403


def test_a_revoked_or_expired_key_is_refused_at_every_server(
    open_client: Open, make_key: MakeKey, start_server: Any, web: Any, run: Any
) -> None:
    other = start_server()
    keys = [make_key("going", "read"), make_key("gone", "read")]
    for running in (web, other):
        assert open_client(keys[0], running).get("/api/stats").status_code == 200
    run(revoke_key("going", revoked_by="ada"))
    for running in (web, other):
        running.server.context.auth.forget()
        assert open_client(keys[0], running).get("/api/stats").status_code == 401
    late = make_key("late", "read", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert open_client(late).get("/api/stats").status_code == 401


def test_unknown_keys_are_counted_by_address_whatever_the_headers_say(
    open_client: Open, make_key: MakeKey
) -> None:
    statuses, failures = [], ServerSettings().auth_failures
    for number in range(failures + 1):
        unknown = f"Bearer psk_{number:012d}_{'b' * 43}"
        spoofed = {"X-Forwarded-For": f"10.0.0.{number}", "Authorization": unknown}
        answer = open_client().get("/api/stats", headers=spoofed)
        statuses.append(answer.status_code)
    assert statuses == [401] * failures + [429]
    assert int(answer.headers["retry-after"]) > 0
    # A key that this server has not seen before is accepted from the same address.
    assert open_client(make_key("reader", "read")).get("/api/stats").status_code == 200


@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "by id"])
def test_wrong_secrets_are_counted_for_their_key_and_never_lock_it_out(
    open_client: Open, make_key: MakeKey, by_name: bool
) -> None:
    key, anybody = make_key("reader", "read"), open_client()
    wrong = key[:-8] + "wrong" + "x" * 3
    statuses = [
        anybody.get("/api/stats", auth=("reader" if by_name else "", wrong)).status_code
        for _ in range(ServerSettings().auth_failures + 2)
    ]
    assert statuses == [401] * ServerSettings().auth_failures + [429] * 2
    # The address is not to blame: another key from there has its own failures.
    other = make_key("other", "read")
    assert anybody.get("/api/stats", auth=("", other[:-3] + "xxx")).status_code == 401
    # The holder comes for the first time.
    assert open_client(key).get("/api/stats").status_code == 200
    assert anybody.get("/api/stats", auth=("reader", key)).status_code == 200
    assert anybody.post("/login", data={"key": key}).status_code == 303


def test_any_number_of_addresses_is_counted_in_little_memory() -> None:
    failures = Failures(1)
    for number in range(25_000):
        assert failures.add(f"address 2001:db8::{number:x}") == 0
    assert len(failures._times) <= 10_000
    # The last ones are known, and are told to wait.
    assert failures.add(f"address 2001:db8::{24_999:x}") > 0


def test_a_key_that_was_made_by_an_earlier_version_is_known(open_client: Open, db: Any) -> None:
    token = "psk_" + "a" * 12 + "_" + "b" * 43
    salt, made = b"0123456789abcdef", base64.b64encode
    digest = hashlib.scrypt(token.encode(), salt=salt, n=2**14, r=8, p=1)
    stored = f"scrypt$16384$8$1${made(salt).decode()}${made(digest).decode()}"
    db.execute("select penstock.create_key(%s, 'old', %s, '{read}')", ["a" * 12, stored])
    assert open_client(token).get("/api/stats").status_code == 200
    assert open_client(token[:-1] + "c").get("/api/stats").status_code == 401


def test_a_secret_is_nowhere_in_the_database(make_key: MakeKey, db: Any) -> None:
    token = make_key("reader", "read")
    [row] = db.execute("select k::text from penstock.api_key k").fetchall()
    assert token.split("_", 2)[2] not in row[0]  # the secret itself may have a _ in it
    assert "sha256$" in row[0]


def test_two_live_keys_have_two_names(make_key: MakeKey, run: Any) -> None:
    make_key("reader", "read")
    with pytest.raises(ApiKeyExistsError):
        make_key("reader", "read")
    run(revoke_key("reader"))
    make_key("reader", "read")
    with pytest.raises(ApiKeyNotFoundError):
        run(revoke_key("nobody"))


@pytest.mark.parametrize("scopes", [["write"], ["read:"], [""], []])
def test_a_scope_that_does_not_exist_is_refused(scopes: list[str]) -> None:
    with pytest.raises(InvalidValueError, match="scope"):
        new_key("x", scopes)


def test_grants_read_as_they_are_written() -> None:
    texts = ["read", "enqueue:orders-*", "admin"]
    assert [str(grant) for grant in parse_grants(texts)] == texts


def test_the_first_key_is_made_on_loopback_and_kept_for_the_owner(run: Any, tmp_path: Path):
    settings = ServerSettings()
    made = admin_key(run, settings, tmp_path)
    assert made is not None
    assert key_id(made) is not None
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert admin_key(run, settings, tmp_path) == made
    assert admin_key(run, settings, None) is None
    run(revoke_key("admin"))
    assert admin_key(run, settings, tmp_path) not in (None, made)


def test_two_servers_that_start_at_once_make_one_first_key(
    run: Any, dsn: str, tmp_path: Path
) -> None:
    first = new_key("admin", ["admin"])
    watcher = psycopg.connect(dsn, autocommit=True)
    waiting = (
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock'"
    )
    with psycopg.connect(dsn) as connection, ThreadPoolExecutor(1) as pool, watcher:
        connection.execute(first.command.sql.encode(), first.command.params)
        # This one sees no key yet, and waits for what the other makes of it.
        second = pool.submit(admin_key, run, ServerSettings(), tmp_path)
        while watcher.execute(waiting).fetchone() == (0,):
            assert not second.done()
        (tmp_path / FILE).write_text(first.token)
        connection.commit()
        assert second.result() == first.token


def test_no_other_address_is_served_without_a_key(run: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no API key.* other machines"):
        admin_key(run, ServerSettings(host="0.0.0.0"), tmp_path)


def test_no_key_is_made_unasked_in_a_database_that_was_named(run: Any, make_key: MakeKey) -> None:
    with pytest.raises(ConfigurationError, match=r"no API key.* your own"):
        admin_key(run, ServerSettings(), None)
    make_key("mine", "read")
    assert admin_key(run, ServerSettings(), None) is None


def test_pages_want_a_session_and_a_session_ends_with_its_key(
    open_client: Open, make_key: MakeKey, web: Any, run: Any
) -> None:
    browser = open_client()
    away = browser.get("/")
    assert (away.status_code, away.headers["location"]) == (303, "/login?next=/")
    wrong = browser.post("/login", data={"key": "psk_no"})
    assert (wrong.status_code, "unknown" in wrong.text) == (401, True)
    entered = browser.post("/login", data={"key": make_key("ada", "read"), "next": "//evil"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert browser.get("/").status_code == 200
    forged = browser.cookies["penstock_session"].replace(".", "x.")
    assert (
        open_client().get("/", headers={"Cookie": f"penstock_session={forged}"}).status_code == 303
    )
    run(revoke_key("ada"))
    web.server.context.auth.forget()
    assert browser.get("/").status_code == 303


def test_a_form_of_another_site_is_refused(open_client: Open, make_key: MakeKey) -> None:
    key = make_key("ada", "read")
    answer = open_client().post(
        "/login", data={"key": key}, headers={"Origin": "https://evil.example"}
    )
    assert answer.status_code == 403
