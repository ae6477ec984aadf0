"""Services that hang, stop, or change their password: calls answer in time, and no task is lost."""

from __future__ import annotations

import asyncio
import shutil
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.server.stopped import Stoppable, stoppable
from tests.server.test_control_plane import active, create, result, until

from penstock.db.embedded import EmbeddedPostgres

Db = psycopg.Connection[Any]
# Far more than a call should take, and less than it took while calls waited without a limit.
PATIENCE = 12.0
# Every call answers within this time. The slow forms check it.
BAR = 5.0
FAR = "/managed-services/far/queues"
LOCAL = "/managed-services/local/queues"
NUMBER = {"payload": {"n": 1}}


@pytest.fixture
def far(pg_bin: Path) -> Iterator[Stoppable]:
    with stoppable(pg_bin) as made:
        yield made


class Timed:
    """A client that notes how long its slowest call took. With a bar, it is the longest time."""

    def __init__(self, client: httpx.Client, bar: float | None = None) -> None:
        self._client = client
        self._bar = bar
        self.slowest = 0.0

    def check(self) -> None:
        print(f"slowest call: {self.slowest:.1f} s")
        assert self._bar is None or self.slowest < self._bar

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._client, method)

        def timed(*args: Any, **options: Any) -> Any:
            started = time.monotonic()
            try:
                return call(*args, **options)
            finally:
                self.slowest = max(self.slowest, time.monotonic() - started)

        return timed


def register(http: Any, dsn: str, name: str = "far") -> dict[str, Any]:
    made = http.post("/managed-services", json={"name": name, "dsn": dsn})
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


def enqueue(http: Any, base: str, queue: str = "order-events") -> str:
    answer = http.post(f"{base}/{queue}/messages", json={"messages": [NUMBER]})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["task_id"])


def poll(http: Any, base: str, task: str, queue: str = "order-events") -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"{base}/{queue}/messages", params={"task_id": task}).json()
    return found


def stored(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select count(*) from penstock.messages").fetchone()
    assert row is not None
    return int(row[0])


def down(http: Any) -> dict[str, Any]:
    """The status of the service, once it is known to be down."""
    found: dict[str, Any] = until(
        lambda: http.get("/managed-services/far").json()["status"],
        lambda status: status["reachable"] is False,
    )
    return found


@pytest.mark.parametrize(
    ("wait", "bar"),
    [(None, None), *(pytest.param(each, BAR, marks=pytest.mark.slow) for each in (None, 0))],
)
def test_a_hung_service_hangs_nothing(
    start_server: Any, make_key: Any, far: Stoppable, wait: int | None, bar: float | None
) -> None:
    running = start_server(service_wait_seconds=wait)
    headers = {"Authorization": f"Bearer {make_key('admin', 'admin')}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=PATIENCE) as client:
        http = Timed(client, bar)
        made = register(http, far.dsn)
        assert (made["status"]["reachable"], made["status"]["error_message"]) == (True, None)
        assert made["status"]["schema_version"] >= 11
        assert create(http, FAR).status_code == create(http, LOCAL).status_code == 201  # type: ignore[arg-type]
        assert active(http, base=FAR)["status"] == "Active"  # type: ignore[arg-type]
        assert active(http, base=LOCAL)["status"] == "Active"  # type: ignore[arg-type]
        far.stop()
        tasks = [enqueue(http, FAR) for _ in range(6)]
        # The other service continues.
        path = f"{LOCAL}/order-events/messages"
        assert result(http, path, enqueue(http, LOCAL))["status"] == "completed"  # type: ignore[arg-type]
        assert down(http)["error_message"]
        listed = http.get(FAR).json()
        assert [each["name"] for each in listed["queues"]] == ["order-events"]
        assert listed["service_status"]["reachable"] is False
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: http.get(FAR), range(16)))
        if wait is None:
            waiting = until(lambda: poll(http, FAR, tasks[0]), lambda task: "waiting_for" in task)
            assert waiting["status"] == "pending"
        else:
            ends = [until(lambda t=t: poll(http, FAR, t), _is_over) for t in tasks]  # type: ignore[misc]
            assert {each["status"] for each in ends} == {"failed"}
            assert all("cannot be reached" in each["error_message"] for each in ends)
        far.go_on()
        if wait is not None:
            for task in tasks:
                retried = http.post(f"/managed-services/far/tasks/{task}/retry")
                assert retried.json()["status"] == "pending"
        ends = [until(lambda t=t: poll(http, FAR, t), _is_over) for t in tasks]  # type: ignore[misc]
        assert {each["status"] for each in ends} == {"completed"}
        ids = [each["result"]["message_ids"][0] for each in ends]
        assert ids == sorted(set(ids))
        assert stored(far.dsn) == len(tasks)
        http.check()


@pytest.mark.parametrize(
    ("hung", "queues", "bar"), [(1, 6, None), pytest.param(3, 40, BAR, marks=pytest.mark.slow)]
)
def test_other_services_go_on_while_services_hang(
    start_server: Any,
    make_key: Any,
    make_database: Callable[[str], str],
    template: str,
    pg_bin: Path,
    hung: int,
    queues: int,
    bar: float | None,
) -> None:
    running = start_server(service_wait_seconds=None)
    headers = {"Authorization": f"Bearer {make_key('admin', 'admin')}"}
    others = ["local", "near", "next"]
    with (
        httpx.Client(base_url=running.url, headers=headers, timeout=PATIENCE) as client,
        ExitStack() as stack,
    ):
        http = Timed(client, bar)
        servers = [stack.enter_context(stoppable(pg_bin)) for _ in range(hung)]
        for number, each in enumerate(servers):
            register(http, each.dsn, f"far-{number}")
        for name in others[1:]:
            register(http, make_database(template), name)
        bases = [f"/managed-services/{name}/queues" for name in others]
        for base in bases:
            create(http, base)  # type: ignore[arg-type]
            assert active(http, base=base)["status"] == "Active"  # type: ignore[arg-type]
        for each in servers:
            each.stop()
        # The tasks of one queue are carried out one after the other, those of several at once.
        for number in range(hung):
            for queue in range(queues):
                made = create(http, f"/managed-services/far-{number}/queues", name=f"q{queue}")  # type: ignore[arg-type]
                assert made.status_code == 201
        began = time.monotonic()
        tasks = [(base, enqueue(http, base)) for base in bases for _ in range(3)]
        ends = [
            until(lambda b=b, t=t: poll(http, b, t), _is_over)  # type: ignore[misc]
            for b, t in tasks
        ]
        seconds = time.monotonic() - began
        print(f"tasks of other services: {seconds:.1f} s")
        assert {each["status"] for each in ends} == {"completed"}
        assert bar is None or seconds < bar
        for each in servers:
            each.go_on()
        for number in range(hung):
            base = f"/managed-services/far-{number}/queues"
            found = [active(http, f"q{queue}", base)["status"] for queue in range(queues)]  # type: ignore[arg-type]
            assert found == ["Active"] * queues
        http.check()


@pytest.mark.slow
def test_a_service_is_moved_away_from_a_hung_server(
    web: Any, http: httpx.Client, far: Stoppable, empty_dsn: str
) -> None:
    timed = Timed(http, BAR)
    id = register(timed, far.dsn)["id"]
    far.stop()
    checked = timed.post("/managed-services/far/check").json()["status"]
    assert checked["reachable"] is False
    with ThreadPoolExecutor(1) as pool:
        checking = pool.submit(http.post, "/managed-services/far/check")
        until(lambda: id in web.server.context.monitor._checking, bool)
        changed = timed.patch("/managed-services/far", json={"dsn": empty_dsn}).json()["status"]
        assert (changed["reachable"], changed["error_message"]) == (True, None)
        assert checking.result().status_code == 200
    shown = timed.get("/managed-services/far").json()["status"]
    assert (shown["reachable"], shown["error_message"]) == (True, None)
    refused = timed.patch("/managed-services/far", json={"dsn": far.dsn})
    assert (refused.status_code, refused.json()["code"]) == (409, "ServiceUnreachableError")
    unchecked = timed.patch("/managed-services/far", json={"dsn": far.dsn, "check": False})
    assert unchecked.json()["status"]["reachable"] is False
    timed.check()


def test_a_task_of_a_service_that_moves_during_its_failing_check_is_carried_out(
    web: Any, http: httpx.Client, far: Stoppable, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = web.server.context.monitor
    asked, check = threading.Event(), monitor.check

    async def noted(service: str) -> Any:
        if under_way := monitor._checking.get(service):
            await asyncio.wait({under_way})
        asked.set()
        return await check(service)

    register(http, far.dsn)
    far.stop()
    monkeypatch.setattr(monitor, "check", noted)
    create(http, FAR)
    assert asked.wait(30)
    http.patch("/managed-services/far", json={"dsn": empty_dsn})
    assert active(http, base=FAR)["status"] == "Active"


def _is_over(task: dict[str, Any]) -> bool:
    return task["status"] not in ("pending", "running")


class Restartable:
    """A PostgreSQL that can be shut down and started again."""

    def __init__(self, pg_bin: Path) -> None:
        self._bin = pg_bin
        self.home = Path(tempfile.mkdtemp(prefix="penstock-restarted-"))
        self.home.chmod(0o755)
        self.start()

    def start(self) -> None:
        self._server = EmbeddedPostgres.start(self.home, bin_dir=self._bin)
        self.dsn = self._server.dsn

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture
def restartable(pg_bin: Path) -> Iterator[Restartable]:
    made = Restartable(pg_bin)
    yield made
    made.stop()
    shutil.rmtree(made.home, ignore_errors=True)


def outage(http: Timed, far: Restartable, seconds: float, tasks: int) -> None:
    """Tasks of a service that is down wait together, and continue when it is back."""
    register(http, far.dsn)
    create(http, FAR)  # type: ignore[arg-type]
    active(http, base=FAR)  # type: ignore[arg-type]
    far.stop()
    down(http)
    accepted = [enqueue(http, FAR) for _ in range(tasks)]
    assert create(http, FAR, name="later").json()["status"] == "Pending"  # type: ignore[arg-type]
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        listed = http.get("/managed-services/far/tasks", params={"status": "pending"}).json()
        assert len(listed["items"]) == tasks + 1
        assert all(each["waiting_for"] for each in listed["items"])
        assert http.get(FAR).status_code == 200
    cancelled = accepted.pop()
    assert http.post(f"/managed-services/far/tasks/{cancelled}/cancel").status_code == 200
    far.start()
    ends = [until(lambda t=t: poll(http, FAR, t), _is_over) for t in accepted]  # type: ignore[misc]
    assert {each["status"] for each in ends} == {"completed"}
    ids = [each["result"]["message_ids"][0] for each in ends]
    assert ids == sorted(set(ids))
    assert stored(far.dsn) == len(accepted)
    assert active(http, "later", FAR)["status"] == "Active"  # type: ignore[arg-type]
    assert poll(http, FAR, cancelled)["status"] == "cancelled"
    http.check()


@pytest.mark.parametrize(
    ("seconds", "tasks"),
    [(0.0, 10), pytest.param(150.0, 40, marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
)
def test_tasks_of_a_service_that_is_down_wait_together_and_go_on(
    start_server: Any, make_key: Any, restartable: Restartable, seconds: float, tasks: int
) -> None:
    running = start_server(service_wait_seconds=None)
    headers = {"Authorization": f"Bearer {make_key('admin', 'admin')}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=PATIENCE) as client:
        outage(Timed(client, BAR if seconds else None), restartable, seconds, tasks)


@pytest.mark.parametrize(
    ("count", "bar"), [(12, None), pytest.param(40, BAR, marks=pytest.mark.slow)]
)
def test_tasks_of_a_service_that_stays_down_fail_together(
    start_server: Any,
    make_key: Any,
    restartable: Restartable,
    db: Db,
    count: int,
    bar: float | None,
) -> None:
    running = start_server(service_wait_seconds=3)
    headers = {"Authorization": f"Bearer {make_key('admin', 'admin')}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=PATIENCE) as client:
        http: Any = Timed(client, bar)
        register(http, restartable.dsn)
        create(http, FAR)
        active(http, base=FAR)
        restartable.stop()
        tasks = [enqueue(http, FAR) for _ in range(count)]
        ends = [until(lambda t=t: poll(http, FAR, t), _is_over) for t in tasks]  # type: ignore[misc]
        assert {each["status"] for each in ends} == {"failed"}
        assert all("cannot be reached since" in each["error_message"] for each in ends)
        # In few steps, not one after the other.
        moments = "select count(distinct finished_at::timestamptz(0)) from penstock.service_task"
        assert (db.execute(f"{moments} where status = 'failed'").fetchone() or (99,))[0] <= 3
        # A queue that failed can be removed by force, and a queue of that name can be made again.
        create(http, FAR, name="other")
        assert until(
            lambda: http.get(f"{FAR}/other").json(), lambda queue: queue["status"] == "Failed"
        )["error_message"]
        assert http.delete(f"{FAR}/other", params={"force": "true"}).status_code == 202
        assert http.get(f"{FAR}/other").status_code == 404
        create(http, FAR, name="again")
        until(lambda: http.get(f"{FAR}/again").json(), lambda queue: queue["status"] == "Failed")
        restartable.start()
        assert http.post("/managed-services/far/check").json()["status"]["reachable"] is True
        assert http.post(f"{FAR}/again/retry").status_code == 202
        assert active(http, "again", FAR)["status"] == "Active"
        restartable.stop()
        restartable.start()
        http.check()


class TcpServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, target: str) -> None:
        self.target = target
        super().__init__(("127.0.0.1", 0), Relay)


class Relay(socketserver.BaseRequestHandler):
    """Passes a TCP connection on to the socket of a PostgreSQL, which listens on no network."""

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as target:
            assert isinstance(self.server, TcpServer)
            target.connect(self.server.target)
            back = threading.Thread(target=_pump, args=(target, self.request))
            back.start()
            _pump(self.request, target)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def over_tcp(pg_bin: Path) -> Iterator[tuple[str, Db]]:
    """The DSN of a role that logs in over TCP with a password, and a connection of the admin."""
    with stoppable(pg_bin) as made, psycopg.connect(made.dsn, autocommit=True) as admin:
        [(rules,)] = admin.execute("show hba_file")
        path = Path(rules)
        path.write_text(f"local all rotated scram-sha-256\n{path.read_text('ascii')}", "ascii")
        admin.execute("create role rotated superuser login password 'old secret'")
        admin.execute("select pg_reload_conf()")
        with TcpServer(f"{admin.info.host}/.s.PGSQL.{admin.info.port}") as relay:
            threading.Thread(target=relay.serve_forever).start()
            host, port = relay.server_address
            parts = {"host": host, "port": port, "user": "rotated", "password": "old secret"}
            yield make_conninfo(dbname=admin.info.dbname, **parts), admin
            relay.shutdown()


@pytest.mark.parametrize("bar", [None, pytest.param(BAR, marks=pytest.mark.slow)])
def test_a_rotated_password_stops_no_task_for_good(
    http: httpx.Client, over_tcp: tuple[str, Db], bar: float | None
) -> None:
    dsn, admin = over_tcp
    timed = Timed(http, bar)
    register(timed, dsn)
    create(timed, FAR)  # type: ignore[arg-type]
    assert active(timed, base=FAR)["status"] == "Active"  # type: ignore[arg-type]
    admin.execute("alter role rotated password 'new secret'")
    admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'rotated'"
    )
    task = enqueue(timed, FAR)
    waiting = until(lambda: poll(timed, FAR, task), lambda found: "waiting_for" in found)
    assert "password authentication failed" in waiting["waiting_for"]
    refused = timed.patch("/managed-services/far", json={"password": "wrong"})
    assert (refused.status_code, refused.json()["code"]) == (409, "ServiceUnreachableError")
    changed = timed.patch("/managed-services/far", json={"password": "new secret"})
    assert changed.json()["status"]["reachable"] is True
    assert "secret" not in changed.text
    assert result(timed, f"{FAR}/order-events/messages", task)["status"] == "completed"  # type: ignore[arg-type]
    assert stored(make_conninfo(dsn, password="new secret")) == 1
    timed.check()


def test_an_old_task_is_not_shown_under_a_queue_created_again(http: httpx.Client) -> None:
    create(http)
    active(http)
    task = enqueue(http, LOCAL)
    result(http, f"{LOCAL}/order-events/messages", task)
    http.delete(f"{LOCAL}/order-events")
    until(lambda: http.get(f"{LOCAL}/order-events").status_code, lambda status: status == 404)
    create(http)
    active(http)
    answer = http.get(f"{LOCAL}/order-events/messages", params={"task_id": task})
    assert answer.status_code == 404


def test_a_hundred_messages_of_250_kb_are_accepted(http: httpx.Client, db: Db) -> None:
    create(http)
    active(http)
    path = f"{LOCAL}/order-events/messages"
    messages = [{"payload": {"n": n, "text": "x" * 250_000}} for n in range(100)]
    accepted = http.post(path, json={"messages": messages})
    assert accepted.status_code == 202, accepted.text
    assert len(result(http, path, accepted.json()["task_id"])["result"]["message_ids"]) == 100


@pytest.mark.parametrize(
    "tasks", [40, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_two_servers_share_the_tasks_of_a_killed_one(
    start_process: Callable[..., Any], http: httpx.Client, empty_dsn: str, tasks: int, web: Any
) -> None:
    web.stop()  # only its database is used
    first, second = start_process(), start_process()
    key = http.headers["Authorization"]
    with (
        httpx.Client(
            base_url=first.url, headers={"Authorization": key}, timeout=PATIENCE
        ) as killed,
        httpx.Client(base_url=second.url, headers={"Authorization": key}, timeout=PATIENCE) as left,
    ):
        register(killed, empty_dsn)
        for number in range(4):
            create(killed, FAR, name=f"q{number}")
            assert active(killed, f"q{number}", FAR)["status"] == "Active"
        accepted = [(enqueue(killed, FAR, f"q{n % 4}"), f"q{n % 4}") for n in range(tasks)]
        first.kill()
        survivor = Timed(left, BAR if tasks > 40 else None)
        ends = [
            until(lambda t=t, q=q: poll(survivor, FAR, t, q), _is_over)  # type: ignore[misc]
            for t, q in accepted
        ]
        assert {each["status"] for each in ends} == {"completed"}
        survivor.check()
    assert stored(empty_dsn) == tasks
