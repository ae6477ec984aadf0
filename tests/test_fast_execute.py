"""The short way through the driver: the same answers and the same errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.conftest import Connect

from penstock import Client
from penstock.commands.command import Command, scalar
from penstock.commands.write import ack_many, claim, create_queue, enqueue_many
from penstock.db.async_connections import AsyncConnections
from penstock.errors import DatabaseUnavailableError, QueueNotFoundError
from penstock.model.message import NewMessage

PREPARED = Command("select count(*) from pg_prepared_statements", {}, scalar)
SYNCHRONOUS = "select current_setting('synchronous_commit')"
# Next to the setting, not after it: the planner may evaluate it first. Then once for each row.
SEEN = Command(f"{SYNCHRONOUS}, generate_series(1, 2)", {}, lambda rows: rows[-1][0], light=True)

Open = Callable[..., AsyncConnections]


@pytest.fixture
def dsn(dsn: str) -> str:
    """The tests' server does not wait for its disk, unless a session asks for it."""
    return make_conninfo(dsn, options="-c synchronous_commit=on")


@pytest.fixture
async def open_(dsn: str) -> AsyncIterator[Open]:
    """With one connection, the next statement meets what happened on it. Of more, some
    are kept from one statement to the next."""
    opened: list[AsyncConnections] = []

    def open_(prepare_threshold: int | None = 1, size: int = 1) -> AsyncConnections:
        opened.append(
            AsyncConnections(
                dsn,
                None,
                min_size=1,
                max_size=size,
                timeout=30,
                prepare_threshold=prepare_threshold,
            )
        )
        return opened[-1]

    yield open_
    for each in opened:
        await each.close()


@pytest.fixture(params=[1, 6])
async def connections(open_: Open, request: pytest.FixtureRequest) -> AsyncConnections:
    opened = open_(size=request.param)
    await opened.run(create_queue("orders"))
    return opened


@pytest.mark.parametrize("threshold", [None, 0, 1, 5])
async def test_it_answers_as_a_cursor_does(open_: Open, threshold: int | None) -> None:
    connections = open_(threshold)
    await connections.run(create_queue("orders"))
    for _ in range(7):
        messages = [NewMessage({"n": 1}), NewMessage(b"\x00\xff", headers={"a": "b"}, key="k")]
        ids = await connections.run(enqueue_many("orders", messages))
        leases = await connections.run(claim("orders", 10, worker="w"))
        assert [lease.id for lease in leases] == ids
        assert [lease.payload for lease in leases] == [{"n": 1}, b"\x00\xff"]
        assert [lease.headers for lease in leases] == [{}, {"a": "b"}]
        assert leases[0].enqueued_at.utcoffset() is not None
        assert await connections.run(ack_many(leases)) == set(ids)
        assert await connections.run(claim("orders", 10)) == []
    if threshold is None:
        assert await connections.run(PREPARED) == 0
    else:
        assert await connections.run(PREPARED) >= 3


@pytest.mark.fast_paths("psycopg has its own limit on prepared statements")
async def test_texts_without_end_are_not_all_prepared(open_: Open) -> None:
    connections = open_(0)
    for n in range(300):
        command: Command[int] = Command(f"select {n}", {}, scalar)
        assert await connections.run(command) == n
    assert await connections.run(PREPARED) == 200


async def test_an_error_is_ours_and_leaves_the_connection_good(
    connections: AsyncConnections,
) -> None:
    for _ in range(3):
        with pytest.raises(QueueNotFoundError):
            await connections.run(claim("nowhere"))
        assert await connections.run(claim("orders")) == []


@pytest.mark.fast_paths("psycopg does not prepare again what the server forgot")
async def test_statements_that_were_forgotten_are_prepared_again(
    connections: AsyncConnections,
) -> None:
    for _ in range(3):
        [id] = await connections.run(enqueue_many("orders", ["x"]))
        async with connections.transaction(None) as connection:
            await connection.execute("deallocate all", prepare=False)
        assert [lease.id for lease in await connections.run(claim("orders"))] == [id]


async def test_much_that_the_socket_does_not_take_at_once_goes_through(
    connections: AsyncConnections,
) -> None:
    payload = "x" * 200_000
    ids = await connections.run(enqueue_many("orders", [payload] * 100))
    leases = await connections.run(claim("orders", 100))
    assert [lease.id for lease in leases] == ids
    assert {len(lease.payload) for lease in leases} == {len(payload)}


async def test_a_connection_that_was_cut_off_is_replaced(
    connections: AsyncConnections, dsn: str
) -> None:
    await connections.run(claim("orders"))
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    while True:
        try:
            assert await connections.run(claim("orders")) == []
            break
        except DatabaseUnavailableError:  # it was cut off in the middle
            await asyncio.sleep(0.05)


async def test_statements_at_the_same_time_each_get_their_answer(
    connections: AsyncConnections,
) -> None:
    batches = [[f"{n}.{m}" for m in range(3)] for n in range(12)]
    commands = [enqueue_many("orders", batch) for batch in batches]
    ids = await asyncio.gather(*(connections.run(command) for command in commands))
    leases = await connections.run(claim("orders", 100))
    payloads = {lease.id: lease.payload for lease in leases}
    assert [[payloads[id] for id in each] for each in ids] == batches


async def test_one_that_is_given_up_leaves_nothing_for_the_next(
    connections: AsyncConnections,
) -> None:
    """Its answer may be on the way: no other caller may get it."""
    [id] = await connections.run(enqueue_many("orders", ["x"]))
    given_up = asyncio.ensure_future(connections.run(enqueue_many("orders", ["y"] * 1000)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert [lease.id for lease in await connections.run(claim("orders"))] == [id]


async def test_who_stops_waiting_stops_the_statement(
    connections: AsyncConnections, connect: Connect
) -> None:
    db = connect()
    sleep: Command[Any] = Command("select pg_sleep(600)", {}, scalar)
    sleeping = (
        "select count(*) from pg_stat_activity"
        " where query = 'select pg_sleep(600)' and datname = current_database()"
    )
    running = f"{sleeping} and state = 'active'"
    task = asyncio.create_task(connections.run(sleep))
    await _until(lambda: db.execute(running).fetchone() == (1,))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # At once, on the same connection: the statement is over.
    assert await connections.run(claim("orders")) == []
    assert db.execute(running).fetchone() == (0,)


# Each claim notes how many subtransactions with a number its transaction has had.
COUNT_SUBTRANSACTIONS = """
create table public.seen (subtransactions integer);
create function public.note_subtransactions() returns trigger language plpgsql as $$
begin
  insert into public.seen select x.subxact_count
  from pg_stat_get_backend_idset() b, pg_stat_get_backend_subxact(b) x
  where pg_stat_get_backend_pid(b) = pg_backend_pid();
  return null;
end $$;
do $$ declare slot integer; begin
  for slot in 0 .. 8 loop
    execute format('create trigger note after insert on penstock.leased_%s
      execute function public.note_subtransactions()', slot);
  end loop;
end $$"""


async def test_a_claim_is_known_to_be_alone_in_its_transaction(
    connections: AsyncConnections, connect: Connect
) -> None:
    """In another's it needs a subtransaction, if messages are leased in place."""
    db = connect()
    await connections.run(enqueue_many("orders", ["x"] * 30))
    assert len(await connections.run(claim("orders", 16))) == 16
    db.execute(COUNT_SUBTRANSACTIONS)
    for _ in range(4):
        assert len(await connections.run(claim("orders"))) == 1
    assert db.execute("select * from public.seen").fetchall() == [(0,)] * 4
    async with connections.transaction(None) as connection:
        await connection.execute("select * from penstock.claim('orders')")
    assert db.execute("select * from public.seen offset 4").fetchall() == [(1,)]


async def test_a_claim_does_not_wait_for_the_disk(connections: AsyncConnections) -> None:
    assert claim("orders").light
    assert not ack_many([(1, 48)]).light
    assert await connections.run(SEEN) == "off"
    # That one commit only.
    assert await connections.run(Command(SYNCHRONOUS, {}, scalar)) == "on"


def test_the_same_without_async(dsn: str) -> None:
    with Client(dsn, max_size=1) as client:
        assert client.run(SEEN) == "off"
        assert client.run(Command(SYNCHRONOUS, {}, scalar)) == "on"


def test_in_the_callers_transaction_every_commit_waits(dsn: str) -> None:
    with psycopg.connect(dsn) as connection, Client(connection=connection) as client:
        client.create_queue("orders")
        client.enqueue("orders", {"n": 1})
        assert len(client.claim("orders")) == 1
        assert client.run(SEEN) == "on"


async def _until(is_so: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < limit, "it did not come to pass"
        await asyncio.sleep(0.01)
