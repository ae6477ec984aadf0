"""Every route, page and verb, called over a socket with every kind of key. Each does what
`server/auth/permissions.py` declares, and nothing else is changed or shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from tests.server import scenes
from tests.server.scenes import Example, Scene, example_of

from penstock.db.embedded import EmbeddedPostgres
from penstock.model.access import SCOPES, Grant
from penstock.server.app import create_app
from penstock.server.auth import tokens
from penstock.server.auth.permissions import (
    ACTS,
    OPEN,
    PAGES,
    ROUTES,
    VERBS,
    Need,
    UndeclaredError,
    check_declared,
    json_path,
)

FOREIGN = "zz-foreign"
INTERNAL = "penstock.zz-internal"
ALL = [*ROUTES, *(f"VERB {name}" for name in VERBS)]
# It never ends: its stream has separate tests.
STREAMS = {"GET /live"}
HTML = {f"GET {path}" for path in (*PAGES, *ACTS)} | {f"POST {path}" for path in ACTS}
JSON_PAGES = {f"GET {json_path(path)}" for path in (*PAGES, *ACTS)}
# Tasks of the control plane that were accepted are carried out at any moment: in the queue of the
# tasks, and in the queues that were made to be used up.
IN_WORK = "^(orders-[1-9]|penstock.tasks$|penstock.bulk_acts$)"
FINGERPRINT = """
select md5(coalesce(string_agg(line, '|' order by line), '')) from (
  select 'queue' || q::text from penstock.queues q where name !~ %(mine)s
  union all select 'message' || m::text from penstock.messages m where queue !~ %(mine)s
  union all select 'history' || h::text from penstock.history h where queue !~ %(mine)s
  union all select 'schedule' || s::text from penstock.schedules s where queue !~ %(mine)s
  union all select 'subscription' || s::text from penstock.subscription s where queue !~ %(mine)s
  union all select 'service' || concat_ws(' ', s.name, s.removed_at)
    from penstock.service s where name !~ %(mine)s
  union all select 'key' || k::text from penstock.api_key k where name !~ %(mine)s
  union all select 'act' || b.stop_asked from penstock.bulk_act b where b.queues[1] !~ %(mine)s
  union all select 'finding' || f::text from penstock.finding_note f where subject !~ %(mine)s
  union all select 'worker' || h.command || h.worker from penstock.heartbeats h
    where not exists (select from jsonb_object_keys(h.queues) k where k ~ %(mine)s)
) as t (line)
"""


@dataclass
class World:
    """A server with three kinds of queues: the caller's `orders-...`, a foreign and an internal."""

    url: str
    db: psycopg.Connection[Any]
    keys: dict[tuple[str, ...], str]
    sessions: dict[tuple[str, ...], str]
    secret: bytes
    make_key: Callable[..., str]
    http: httpx.Client
    numbers: Iterator[int]
    shared: Scene
    internal: Scene

    def key(self, *grants: str) -> str:
        if grants not in self.keys:
            self.keys[grants] = self.make_key(f"key-{len(self.keys)}", *grants)
        return self.keys[grants]

    def session(self, *grants: str) -> str:
        if grants not in self.sessions:
            answer = self.http.post("/login", data={"key": self.key(*grants)})
            assert answer.status_code == 303, answer.text
            self.sessions[grants] = answer.cookies[COOKIE]
            self.http.cookies.clear()
        return self.sessions[grants]

    def scene(self) -> Scene:
        """A queue that the keys for `orders-*` cover, to be used up."""
        return Scene(self.db, f"orders-{next(self.numbers)}", self._task)

    def _task(self, path: str, body: Any) -> str:
        headers = {"Authorization": f"Bearer {self.key('admin')}"}
        return str(self.http.post(path, json=body, headers=headers).json()["task_id"])

    def fingerprint(self, mine: str) -> str:
        row = self.db.execute(FINGERPRINT, {"mine": mine}).fetchone()
        assert row is not None
        return str(row[0])

    def sign_in(self, route: str, grants: tuple[str, ...] | None) -> None:
        """Make the key, and the session on pages, before anything is compared."""
        if grants is not None:
            _ = self.session(*grants) if route in HTML else self.key(*grants)

    def send(self, route: str, example: Example, grants: tuple[str, ...] | None) -> httpx.Response:
        """The call, with the credentials of a key: as a session on pages, else as Bearer."""
        method = "POST" if route.startswith("VERB ") else route.partition(" ")[0]
        headers, form = dict(example.headers), example.form
        if grants is not None and route in HTML:
            cookie = self.session(*grants)
            headers["Cookie"] = f"{COOKIE}={cookie}"
            if form is not None:
                form = {**form, "csrf": tokens.sign(self.secret, "csrf", cookie).hex()}
        elif grants is not None:
            headers["Authorization"] = f"Bearer {self.key(*grants)}"
        return self.http.request(
            method, example.path, json=example.json, data=form, params=example.query,
            headers=headers,
        )  # fmt: skip


COOKIE = "penstock_session"


@pytest.fixture(scope="module")
def world(server: EmbeddedPostgres, template: str, serve: Any) -> Iterator[World]:
    name = f"matrix_{uuid4().hex[:12]}"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"create database {name} template {template}")
        dsn = server.dsn_of(name)
        running = serve(dsn, upkeep="off", auth_failures=100_000)
        with (
            psycopg.connect(dsn, autocommit=True) as db,
            httpx.Client(base_url=running.url, timeout=60) as http,
        ):
            Scene(db, FOREIGN).everything()
            shared, internal = Scene(db, "orders-0"), Scene(db, INTERNAL)
            http.post("/login", data={"key": running.make_key("first", "admin")})
            http.cookies.clear()
            row = db.execute("select secret from penstock.server_secret").fetchone()
            assert row is not None
            yield World(
                running.url, db, {}, {}, row[0], running.make_key, http, count(1),
                shared.everything(), internal.everything(),
            )  # fmt: skip
        running.stop()
        admin.execute(f"drop database {name} with (force)")


def need_of(route: str) -> Need:
    return VERBS[route.removeprefix("VERB ")] if route.startswith("VERB ") else ROUTES[route]


def all_scopes(need: Need, pattern: str = "") -> tuple[str, ...]:
    """The scopes that are enough, for the queues of a pattern."""
    return tuple(f"{scope}{pattern}" for scope in (need.scope, need.also) if scope)


def other_scopes(scope: str) -> tuple[str, ...]:
    """All scopes that do not bring this one with them."""
    return tuple(each for each in SCOPES if not Grant(each).covers(scope, None))  # type: ignore[arg-type]


def refused(
    world: World, route: str, scene: Scene, grants: tuple[str, ...] | None, status: int
) -> httpx.Response:
    """The call is refused, and nothing at all has changed."""
    example = example_of(route, scene)
    world.sign_in(route, grants)
    before = world.fingerprint(IN_WORK)
    answer = world.send(route, example, grants)
    assert answer.status_code == status, f"{grants}: {answer.status_code} {answer.text[:500]}"
    assert world.fingerprint(IN_WORK) == before, grants
    return answer


def done(world: World, route: str, grants: tuple[str, ...] | None) -> httpx.Response:
    """The call is answered, and no other queue has changed."""
    example = example_of(route, world.scene())
    world.sign_in(route, grants)
    before = world.fingerprint("^(orders-|penstock.tasks$|penstock.bulk_acts$)")
    answer = world.send(route, example, grants)
    assert answer.status_code < 400, f"{grants}: {answer.status_code} {answer.text[:500]}"
    if answer.status_code == 303:
        assert not answer.headers["location"].startswith("/login"), grants
    if need_of(route).target != "all":
        assert world.fingerprint("^(orders-|penstock.tasks$|penstock.bulk_acts$)") == before, grants
    return answer


PROTECTED = [route for route in ALL if route not in STREAMS and need_of(route) != OPEN]


@pytest.mark.parametrize("route", PROTECTED)
def test_without_a_key_nothing_is_done(world: World, route: str) -> None:
    to_login = route in HTML and route.startswith("GET")
    refused(world, route, world.shared, None, 303 if to_login else 401)


@pytest.mark.parametrize("route", [route for route in PROTECTED if need_of(route).scope])
def test_every_other_scope_is_refused(world: World, route: str) -> None:
    scope = str(need_of(route).scope)
    refused(world, route, world.shared, other_scopes(scope), 403)


@pytest.mark.parametrize("route", [route for route in PROTECTED if need_of(route).scope])
def test_a_pattern_that_does_not_cover_the_queue_is_refused_or_sees_its_own(
    world: World, route: str
) -> None:
    need = need_of(route)
    grants = all_scopes(need, ":nothing-*")
    if need.target in ("own", "none"):
        text = done(world, route, grants).text
        assert "orders-" not in text
        assert FOREIGN not in text
        assert INTERNAL not in text
    else:
        answer = refused(world, route, world.shared, grants, 403)
        names_it = world.shared.queue in str(answer.request.url)
        if need.target in ("message", "lease") and not names_it:
            # The caller has named an id, and learns from it nothing about other queues.
            assert world.shared.queue not in answer.text


@pytest.mark.parametrize("route", [route for route in PROTECTED if need_of(route).scope])
def test_a_pattern_that_covers_the_queue_is_enough_where_a_queue_is_named(
    world: World, route: str
) -> None:
    need = need_of(route)
    grants = all_scopes(need, ":orders-*")
    if need.target == "all":
        refused(world, route, world.shared, grants, 403)
    else:
        text = done(world, route, grants).text
        assert FOREIGN not in text
        assert INTERNAL not in text


@pytest.mark.parametrize("route", [route for route in PROTECTED if need_of(route).also])
def test_one_of_two_scopes_is_not_enough(world: World, route: str) -> None:
    need = need_of(route)
    refused(world, route, world.shared, (str(need.scope),), 403)
    refused(world, route, world.shared, (str(need.also),), 403)


@pytest.mark.parametrize("route", PROTECTED)
def test_a_scope_for_all_queues_is_enough(world: World, route: str) -> None:
    need = need_of(route)
    text = done(world, route, all_scopes(need) or ("read",)).text
    if need.scope != "admin" and need.target == "own":
        assert INTERNAL not in text


BY_QUEUE = ("path", "body", "message", "schedule", "subscription", "worker", "bulk")


@pytest.mark.parametrize("route", [r for r in PROTECTED if need_of(r).target in BY_QUEUE])
def test_internal_queues_are_for_admins_of_all_queues(world: World, route: str) -> None:
    scope = str(need_of(route).scope)
    # The control plane makes no queues with a dot in their names.
    status = 422 if route == "POST /managed-services/{service}/queues" else 403
    everything_but = tuple(each for each in SCOPES if each != "admin")
    for grants in (everything_but, ("admin:penstock.*",), (f"{scope}:penstock.*",)):
        refused(world, route, world.internal, grants, status)


@pytest.mark.parametrize("route", [r for r in PROTECTED if need_of(r).target == "lease"])
def test_a_key_for_some_queues_settles_no_lease_of_an_internal_one(
    world: World, route: str
) -> None:
    refused(world, route, world.internal, ("consume:penstock.*",), 403)


@pytest.mark.parametrize("route", ["GET /api/messages", "VERB messages", "GET /messages.json"])
def test_an_admin_sees_internal_queues_by_name(world: World, route: str) -> None:
    example = {
        "GET /api/messages": Example("/api/messages", query={"topic": INTERNAL}),
        "VERB messages": example_of("VERB messages", world.internal),
        "GET /messages.json": Example("/messages.json", query={"queue": INTERNAL}),
    }[route]
    assert INTERNAL in world.send(route, example, ("admin",)).text
    assert world.send(route, example, ("read", "operate")).status_code == 403


ADMIN_PAGES = ("/system", "/batches", "/services")  # they show all queues
OWN_PAGES = [path for path in PAGES if "{" not in path and path not in ADMIN_PAGES]
# They may be called with a scope for one queue and name none. All of them only read, and the tests
# above see that nothing of other queues is in their answers.
READS_WITHOUT_A_QUEUE = {
    *(
        f"GET /api/{name}"
        for name in (
            *("messages", "topic-configs", "stats", "schedules", "subscriptions", "keys"),
            "workers",
        )
    ),
    *("GET /api/dead-letters/errors", "GET /api/cron/next"),
    *("GET /api/admin/activity", "GET /metrics", "GET /managed-services/{service}/queues"),
    *(f"GET {path}" for path in OWN_PAGES),
    *(f"GET {json_path(path)}" for path in OWN_PAGES),
    *(f"VERB {name}" for name in ("queues", "workers", "schedules", "schedule_page", "next_fires")),
}


def test_whatever_names_no_queue_needs_all_of_them_or_reads_the_callers() -> None:
    """What is declared here once more: a wrong declaration would be tested as it stands."""
    needs = {route: need_of(route) for route in PROTECTED}
    without = {r for r, need in needs.items() if need.scope and need.target in ("own", "none")}
    assert without == READS_WITHOUT_A_QUEUE
    any_key = {r for r, need in needs.items() if need.scope is None}
    assert any_key == {"POST /api/verbs", "VERB schema_version"}


def test_every_route_and_verb_is_declared_and_has_an_example() -> None:
    known = {*scenes.ROUTES, *(f"VERB {name}" for name in scenes.VERBS)}
    known |= {f"{method} {path}" for path in scenes.ACTS for method in ("GET", "POST")}
    assert known - set(ALL) == set()
    assert {f"VERB {name}" for name in VERBS} - known == set()
    assert {f"POST {path}" for path in ACTS} - known == set()


def test_a_route_that_is_not_declared_keeps_the_server_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from starlette.routing import Mount, Route

    from penstock.server import ui
    from penstock.server.api.topics import endpoint
    from penstock.server.context import Context
    from penstock.server.settings import ServerSettings

    routes = ui.routes()
    for extra in (Route("/backdoor", lambda request: None), Mount("/backdoor", routes=[])):
        monkeypatch.setattr(ui, "routes", lambda extra=extra: [*routes, extra])
        with pytest.raises(UndeclaredError, match="backdoor"):
            create_app(Context("", ServerSettings()))
    with pytest.raises(UndeclaredError, match="POST /api/backdoor"):
        endpoint("POST", "/api/backdoor", answers={200: None})(create_app)  # type: ignore[arg-type]
    with pytest.raises(UndeclaredError, match="'steal'"):
        check_declared(ROUTES, [*VERBS, "steal"])
    with pytest.raises(UndeclaredError, match="does not exist"):
        check_declared(ROUTES, list(VERBS)[1:])
