"""PGMQ's Python clients from PyPI, unchanged, over their whole API, on Penstock and on PGMQ."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pgmq
import pytest
import sqlalchemy
import tembo_pgmq_python as tembo
from pgmq.notify_listener import SyncNotificationListener
from pgmq.sync_operations import SyncPGMQueueOperationsMixin
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import create_async_engine
from tembo_pgmq_python.async_queue import PGMQueue as TemboAsync

import penstock

from .sessions import Connection, rows

Session = Callable[..., Connection]
Call = Callable[..., Any]

SOON = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture(params=["penstock", "pgmq"])
def dsn_of_pgmq(request: pytest.FixtureRequest) -> str:
    name = {"penstock": "pgmq_dsn", "pgmq": "real_pgmq_dsn"}[request.param]
    return str(request.getfixturevalue(name))


def address(dsn: str) -> dict[str, str]:
    found = conninfo_to_dict(dsn)
    return {
        "host": str(found["host"]),
        "port": str(found["port"]),
        "database": str(found["dbname"]),
        "username": str(found["user"]),
        "password": "none",
    }


@asynccontextmanager
async def asyncpg_pool(dsn: str) -> AsyncIterator[Any]:
    place = address(dsn)
    pool = await asyncpg.create_pool(
        host=place["host"],
        port=int(place["port"]),
        database=place["database"],
        user=place["username"],
        min_size=1,
    )
    try:
        yield pool
    finally:
        await pool.close()


def url(dsn: str, driver: str) -> sqlalchemy.URL:
    place = address(dsn)
    query = {"host": place["host"], "port": place["port"]}
    return sqlalchemy.URL.create(
        f"postgresql+{driver}", place["username"], database=place["database"], query=query
    )


@asynccontextmanager
async def opened(kind: str, dsn: str) -> AsyncIterator[Any]:
    """One of the four clients of the package pgmq."""
    options: dict[str, Any] = {**address(dsn), "conn_string": None, "init_extension": False}
    if kind == "psycopg":
        client: Any = pgmq.PGMQueue(**options)
        yield client
        client.close()
    elif kind == "asyncpg":
        async with asyncpg_pool(dsn) as pool:
            client = pgmq.AsyncPGMQueue(**options, pool=pool)
            await client.init()
            yield client
    elif kind == "sqlalchemy":
        engine = sqlalchemy.create_engine(url(dsn, "psycopg"))
        yield pgmq.SQLAlchemyPGMQueue(**options, engine=engine)
        engine.dispose()
    else:
        async_engine = create_async_engine(url(dsn, "asyncpg"))
        client = pgmq.SQLAlchemyAsyncPGMQueue(**options, engine=async_engine)
        await client.init()
        yield client
        await async_engine.dispose()


class Script:
    """Calls a client, which may answer at once or be awaited; notes what was called."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.called: set[str] = set()

    async def __call__(self, method: str, *arguments: Any, **options: Any) -> Any:
        self.called.add(method)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # list_queues has news to tell
            answer = getattr(self.client, method)(*arguments, **options)
            return await answer if isinstance(answer, Awaitable) else answer


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg", "sqlalchemy", "sqlalchemy-async"])
async def test_the_whole_api_of_pgmq(kind: str, dsn_of_pgmq: str, request: Any) -> None:
    ours = "penstock" in request.node.name
    async with opened(kind, dsn_of_pgmq) as client:
        call = Script(client)
        await queues(call, ours)
        await messages(call)
        await groups(call)
        await topics(call, ours)
        await notifications(call)
        methods = {
            name
            for name, _ in inspect.getmembers(SyncPGMQueueOperationsMixin, inspect.isfunction)
            if not name.startswith("_")
        }
        # What needs pg_partman, which PGMQ does not bring along.
        unheard = set() if ours else {"create_partitioned_queue", "convert_archive_partitioned"}
        assert methods - call.called == unheard


async def queues(call: Script, ours: bool) -> None:
    await call("create_queue", "work")
    await call("create_queue", "quick", unlogged=True)
    assert await call("validate_queue_name", "x" * 47)
    with pytest.raises(Exception, match="too long"):
        await call("validate_queue_name", "x" * 48)
    if ours:
        await call("create_partitioned_queue", "parts", 1000, 10000)
        await call("convert_archive_partitioned", "parts")
    listed = {q.queue_name: (q.is_partitioned, q.is_unlogged) for q in await call("list_queues")}
    assert listed.pop("parts", (True, False)) == (True, False)
    assert listed == {"work": (False, False), "quick": (False, True)}
    assert await call("drop_queue", "quick") is True
    assert await call("drop_queue", "quick") is False


async def messages(call: Script) -> None:
    first = await call("send", "work", {"n": 1})
    more = [
        await call("send", "work", {"n": 2}, headers={"h": 1}),
        await call("send", "work", {"n": 3}, delay=600),
        await call("send", "work", {"n": 4}, delay=SOON),
        await call("send", "work", {"n": 5}, headers={"h": 1}, delay=600),
        await call("send", "work", {"n": 6}, headers={"h": 1}, delay=SOON),
    ]
    batch = await call("send_batch", "work", [{"n": 7}, {"n": 8}])
    for options in ({"headers": [{}, {}]}, {"delay": 600}, {"delay": SOON}):
        more += await call("send_batch", "work", [{"n": 0}, {"n": 0}], **options)
    assert sorted({first, *more, *batch}) == [first, *sorted({*more, *batch})]
    read = await call("read", "work", vt=60)
    assert (read.msg_id, read.read_ct, read.message, read.headers) == (first, 1, {"n": 1}, None)
    assert read.last_read_at is not None
    assert read.vt - read.last_read_at == pytest.approx(
        timedelta(seconds=60), abs=timedelta(seconds=1)
    )
    assert len(await call("read_batch", "work", batch_size=3)) == 3
    assert len(await call("read", "work", qty=5, conditional={"n": 0})) == 2
    await call("send", "work", {"n": 10})
    assert len(await call("read_with_poll", "work", qty=1, max_poll_seconds=5)) == 1
    assert await call("read_with_poll", "work", max_poll_seconds=1, conditional={"n": 9}) == []

    assert (await call("set_vt", "work", first, 0)).msg_id == first
    assert (await call("set_vt", "work", first, SOON)).vt == SOON
    assert len(await call("set_vt", "work", [first, more[1]], 0)) == 2
    assert len(await call("set_vt", "work", [first, more[1]], SOON)) == 2
    await call("set_vt", "work", first, 0)
    assert (await call("pop", "work")).msg_id == first
    assert await call("delete", "work", more[0]) is True
    assert await call("delete", "work", more[0]) is False
    assert await call("delete_batch", "work", [more[1], 10**12]) == [more[1]]
    assert await call("archive", "work", more[2]) is True
    assert await call("archive_batch", "work", more[3:5]) == more[3:5]
    metrics = await call("metrics", "work")
    assert (metrics.total_messages, metrics.queue_length) == (15, 9)
    assert [m.queue_name for m in await call("metrics_all") if m.queue_length] == ["work"]
    assert await call("purge", "work") == 9
    await call("detach_archive", "work")


async def groups(call: Script) -> None:
    for name in ("a", "a", "b"):
        await call("send", "work", {"g": name}, headers={"x-pgmq-group": name})
    await call("create_fifo_index", "work")
    await call("create_fifo_indexes_all")
    assert [m.message["g"] for m in await call("read_grouped", "work", qty=1)] == ["a"]
    polled = await call("read_grouped_with_poll", "work", qty=5, max_poll_seconds=1)
    assert [m.message["g"] for m in polled] == ["b"]
    assert await call("read_grouped_rr", "work", qty=5) == []
    assert await call("read_grouped_rr_with_poll", "work", qty=5, max_poll_seconds=1) == []
    await call("purge", "work")


async def topics(call: Script, ours: bool) -> None:
    await call("bind_topic", "logs.*", "work")
    [binding] = await call("list_topic_bindings")
    assert (binding.pattern, binding.queue_name) == ("logs.*", "work")
    assert len(await call("list_topic_bindings", "work")) == 1
    assert [r.queue_name for r in await call("test_routing", "logs.x")] == ["work"]
    assert await call("send_topic", "logs.x", {"n": 1}) == 1
    assert await call("send_topic", "logs.x", {"n": 1}, delay=5) == 1
    assert await call("send_topic", "logs.x", {"n": 1}, headers={"h": 1}, delay=5) == 1
    if ours:  # PGMQ has no function for headers without a delay
        assert await call("send_topic", "logs.x", {"n": 1}, headers={"h": 1}) == 1
    for options in ({}, {"headers": [{}]}, {"delay": 5}, {"delay": SOON}):
        [sent] = await call("send_batch_topic", "logs.x", [{"n": 1}], **options)
        assert sent.queue_name == "work"
    assert await call("unbind_topic", "logs.*", "work") is True
    assert await call("validate_routing_key", "a.b") is True
    assert await call("validate_routing_key", "a..b") is False
    assert await call("validate_topic_pattern", "a.*") is True
    assert await call("validate_topic_pattern", "a.**") is False


async def notifications(call: Script) -> None:
    await call("enable_notify", "work", 0)
    await call("update_notify", "work", 100)
    [throttle] = await call("list_notify_throttles")
    assert (throttle.queue_name, throttle.throttle_interval_ms) == ("work", 100)
    await call("disable_notify", "work")
    assert await call("list_notify_throttles") == []


def test_its_listener_hears_of_messages(dsn_of_pgmq: str) -> None:
    options: Any = {**address(dsn_of_pgmq), "conn_string": None, "init_extension": False}
    client = pgmq.PGMQueue(**options)
    client.create_queue("work")
    client.enable_notify("work", 0)
    heard = threading.Event()
    listener = SyncNotificationListener(client)
    thread = threading.Thread(
        target=listener.listen, args=("work", lambda _: heard.set()), kwargs={"timeout": 60}
    )
    thread.start()
    while not heard.wait(0.05):  # it may not listen yet
        client.send("work", {})
    listener.stop()
    client.send("work", {})
    thread.join()
    client.close()


def with_extension(session: Session, dsn: str, place: Path) -> None:
    """The older client says CREATE EXTENSION at every start: it has to find one."""
    admin = session(dsn)
    if admin.info.server_version < 180000:
        pytest.skip("extension_control_path came with PostgreSQL 18")
    name = admin.info.dbname
    rows(admin, f"""alter database "{name}" set extension_control_path = '$system:{place}'""")


def shim(name: str, tmp_path: Path) -> Path:
    """Penstock's own, or one that holds nothing for the PGMQ that is there without one."""
    ours = Path(penstock.__file__).parent / "sql" / "contracts" / "pgmq"
    place = tmp_path / "extension"
    place.mkdir()
    for file in (ours / "extension").iterdir():
        text = file.read_text("utf-8")
        (place / file.name).write_text(text if name == "penstock" or "=" in text else "")
    if name == "pgmq":
        (place / "pgmq--1.13.0.sql").write_text("")
    for directory in (tmp_path, *tmp_path.parents[:-2]):
        directory.chmod(0o755)
    return tmp_path


TEMBO: Mapping[str, Call] = {
    "create_queue": lambda c: c.create_queue("work"),
    "create_queue unlogged": lambda c: c.create_queue("quick", unlogged=True),
    "create_partitioned_queue": lambda c: c.create_partitioned_queue("parts", "100", "1000"),
    "validate_queue_name": lambda c: c.validate_queue_name("work"),
    "list_queues": lambda c: c.list_queues(),
    "send": lambda c: c.send("work", {"n": 1}),
    "send delay": lambda c: c.send("work", {"n": 1}, delay=1),
    "send tz": lambda c: c.send("work", {"n": 1}, tz=SOON),
    "send_batch": lambda c: c.send_batch("work", [{"n": n} for n in range(5)]),
    "send_batch delay": lambda c: c.send_batch("work", [{"n": 1}], delay=1),
    "send_batch tz": lambda c: c.send_batch("work", [{"n": 1}], tz=SOON),
    "read": lambda c: c.read("work", vt=60),
    "read_batch": lambda c: c.read_batch("work", vt=60, batch_size=1),
    "read_with_poll": lambda c: c.read_with_poll("work", qty=1, max_poll_seconds=2),
    "pop": lambda c: c.pop("work"),
    "delete": lambda c: c.delete("work", 1),
    "delete_batch": lambda c: c.delete_batch("work", [1, 2]),
    "archive": lambda c: c.archive("work", 3),
    "archive_batch": lambda c: c.archive_batch("work", [3, 4]),
    "set_vt": lambda c: c.set_vt("work", 5, 10),
    "metrics": lambda c: c.metrics("work"),
    "metrics_all": lambda c: c.metrics_all(),
    "purge": lambda c: c.purge("work"),
    "detach_archive": lambda c: c.detach_archive("work"),
    "drop_queue": lambda c: c.drop_queue("work"),
    "drop_queue again": lambda c: c.drop_queue("work"),
}


async def outcomes(client: Any) -> dict[str, str]:
    """Of every call: the kind of its answer, or of its error."""
    found = {}
    for name, call in TEMBO.items():
        try:
            answer = call(client)
            answer = await answer if isinstance(answer, Awaitable) else answer
            found[name] = kind_of(answer)
        except Exception as error:
            found[name] = f"{type(error).__name__}"
    return found


def kind_of(answer: Any) -> str:
    if isinstance(answer, list):
        return f"list of {sorted({kind_of(one) for one in answer})}"
    return repr(answer) if isinstance(answer, bool) else type(answer).__name__


async def run_tembo(kind: str, dsn: str) -> dict[str, str]:
    if kind == "sync":
        client = tembo.PGMQueue(**address(dsn), kwargs={"min_size": 1})
        try:
            return await outcomes(client)
        finally:
            client.pool.close()
    client = TemboAsync(**address(dsn))
    await client.init()
    try:
        return await outcomes(client)
    finally:
        await client.pool.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_tembo_pgmq_python_behaves_on_penstock_as_it_does_on_pgmq(
    kind: str, pgmq_dsn: str, real_pgmq_dsn: str, session: Session, tmp_path: Path
) -> None:
    found = {}
    for name, dsn in {"penstock": pgmq_dsn, "pgmq": real_pgmq_dsn}.items():
        (tmp_path / name).mkdir()
        with_extension(session, dsn, shim(name, tmp_path / name))
        found[name] = await run_tembo(kind, dsn)
    ours, theirs = found["penstock"], found["pgmq"]
    # PGMQ itself has no create() with three arguments, which this client calls.
    assert (
        theirs.pop("create_partitioned_queue")
        == {
            "sync": "UndefinedFunction",
            "async": "UndefinedFunctionError",
        }[kind]
    )
    assert ours.pop("create_partitioned_queue") == "NoneType"
    assert ours == theirs
    if kind == "sync":
        assert not [name for name, answer in ours.items() if "Error" in answer]


def test_the_extension_says_so_where_the_schema_is_missing(
    empty_dsn: str, session: Session, tmp_path: Path
) -> None:
    with_extension(session, empty_dsn, shim("penstock", tmp_path))
    with pytest.raises(Exception, match="penstock migrate up --with pgmq"):
        rows(session(empty_dsn), "create extension pgmq")
