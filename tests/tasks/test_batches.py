"""Batches: members are counted where they end, and the next messages are enqueued once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from penstock import App, AsyncClient, Reject, Worker, batch, chain, current
from penstock.commands.write.batches import cancel_batch
from penstock.errors import (
    BatchNotFoundError,
    BatchSealedError,
    ConfigurationError,
    InvalidValueError,
    QueueFullError,
    TaskArgumentsError,
    translated,
)
from penstock.tasks.call import Call
from penstock.testing import drain_async

from .batches_in_sql import Connect, Db, ack_many, claim, counts, follows, make, value
from .conftest import until


@pytest.mark.parametrize("history", [0, 7])
@pytest.mark.parametrize("size", [1, 5, 40])
def test_a_batch_finishes_once_whatever_way_its_members_are_acked(
    size: int, history: int, db: Db
) -> None:
    db.execute("select penstock.set_queue('work', %s::jsonb)", [f'{{"keep_history": {history}}}'])
    id, _ = make(db, 60)
    assert follows(db) == []
    acked = 0
    while leases := claim(db, size):
        if size == 1:
            db.execute("select penstock.ack(%s, %s)", leases[0])
        else:
            ack_many(db, leases)
        acked += len(leases)
        assert counts(db, id)["pending"] == 60 - acked
    assert counts(db, id) == {"total": 60, "pending": 0, "done": 60}
    assert follows(db) == ["success", "finish"]
    assert follows(db) == ["success", "finish"]
    assert value(db, "select state from penstock.batches where id = %s", id) == "finished"
    assert value(db, "select count(*) from penstock.batch_member") == 0


def test_plain_messages_in_the_same_acks_are_not_counted(db: Db) -> None:
    id, members = make(db, 5)
    plain = value(db, "select penstock.enqueue('work', '1')")
    leases = claim(db)
    assert {lease[0] for lease in leases} == {*members, plain}
    ack_many(db, leases)
    assert counts(db, id) == {"total": 5, "pending": 0, "done": 5}
    assert value(db, "select count(*) from penstock.history where queue = 'work'") == 6


def test_the_last_two_members_may_end_in_concurrent_transactions(db: Db, connect: Connect) -> None:
    id, _ = make(db, 2)
    first, second = claim(db)
    one, two = connect(), connect()
    with one.transaction():
        one.execute("select penstock.ack(%s, %s)", first)
        with two.transaction():
            two.execute("select penstock.ack(%s, %s)", second)
            assert follows(db) == []
        assert follows(db) == []
    assert follows(db) == ["success", "finish"]
    assert counts(db, id) == {"total": 2, "pending": 0, "done": 2}


def test_many_callers_finish_a_batch_once(db: Db, connect: Connect) -> None:
    make(db, 20)
    ack_many(db, claim(db))
    others = [connect() for _ in range(4)]
    finished = 0
    for other in others:
        other.autocommit = False
        finished += value(other, "select penstock.finish_batches()")
    for other in others:
        other.commit()
    assert finished == 1
    assert follows(db) == ["success", "finish"]


def test_a_rolled_back_ack_does_not_count(db: Db, connect: Connect) -> None:
    id, _ = make(db, 1)
    [lease] = claim(db)
    other = connect()
    with other.transaction(force_rollback=True):
        other.execute("select penstock.ack(%s, %s)", lease)
    assert follows(db) == []
    assert counts(db, id)["pending"] == 1
    db.execute("select penstock.ack(%s, %s)", lease)
    assert follows(db) == ["success", "finish"]


def ends(db: Db) -> Iterator[tuple[str, str]]:
    """Ways to end a member other than by an ack, each with the count that it adds to."""
    yield "select penstock.reject(id, token) from penstock.claim('work')", "dead"
    yield "select penstock.cancel(min(id)) from penstock.messages where queue = 'work'", "cancelled"
    yield "select penstock.purge('work', max_count => 1)", "cancelled"
    yield (
        "select penstock.reject_many(array_agg(id), array_agg(token)) from penstock.claim('work')",
        "dead",
    )


def test_members_that_end_without_an_ack_are_counted_too(db: Db) -> None:
    ways = list(ends(db))
    id, _ = make(db, len(ways) + 1)
    expected = {"total": len(ways) + 1}
    for sql, name in ways:
        db.execute(sql)  # type: ignore[call-overload]
        expected[name] = expected.get(name, 0) + 1
        pending = expected["total"] - sum(n for key, n in expected.items() if key != "total")
        assert counts(db, id) == {**expected, "pending": pending}
    ack_many(db, claim(db))
    assert follows(db) == ["failure", "finish"]


def test_expired_members_and_lost_workers_are_counted(db: Db) -> None:
    db.execute("select penstock.set_queue('work', '{\"max_attempts\": 1, \"dlq_enabled\": false}')")
    id = value(db, "select penstock.create_batch()")
    add = "select penstock.add_to_batch(%s, 'work', array['1'::jsonb, '2'], ttls => %s::interval[])"
    members = [row[0] for row in db.execute(add, [id, ["1 microsecond", None]])]
    db.execute("select penstock.seal_batch(%s)", [id])
    db.execute("select penstock.maintain(true)")
    assert counts(db, id) == {"total": 2, "pending": 1, "expired": 1}
    [(last, token)] = claim(db)
    assert last == members[1]
    # Its worker dies in the last attempt, and its lease expires.
    assert value(db, "select penstock.extend(%s, %s, 1)", last, token) is not None
    for table in range(9):
        db.execute(
            f"update penstock.leased_{table} set lease_until = now() - interval '1 hour'".encode()
        )
    db.execute("select penstock.maintain(true)")
    assert counts(db, id) == {"total": 2, "pending": 0, "expired": 1, "dead": 1}


def test_a_redriven_member_counts_again_until_the_batch_has_finished(db: Db) -> None:
    id, _ = make(db, 2)
    first, second = claim(db)
    db.execute("select penstock.reject(%s, %s)", first)
    assert counts(db, id) == {"total": 2, "pending": 1, "dead": 1}
    assert value(db, "select penstock.redrive('work')") == 1
    assert counts(db, id) == {"total": 2, "pending": 2}
    db.execute("select penstock.ack(%s, %s)", second)
    assert follows(db) == []
    [again] = claim(db)
    db.execute("select penstock.reject(%s, %s)", again)
    assert follows(db) == ["failure", "finish"]
    # From now on its counts change, and nothing more follows.
    assert value(db, "select penstock.redrive('work')") == 1
    [again] = claim(db)
    db.execute("select penstock.ack(%s, %s)", again)
    assert follows(db) == ["failure", "finish"]
    assert counts(db, id) == {"total": 2, "pending": 0, "done": 2}


def test_a_dead_letter_that_is_claimed_or_purged_is_not_counted_twice(db: Db) -> None:
    id, _ = make(db, 2)
    for lease in claim(db):
        db.execute("select penstock.reject(%s, %s)", lease)
    [dead] = claim(db, 1, "work.dlq")
    db.execute("select penstock.ack(%s, %s)", dead)
    db.execute("select penstock.purge('work.dlq')")
    assert counts(db, id) == {"total": 2, "pending": 0, "dead": 2}
    assert value(db, "select count(*) from penstock.batch_member") == 0


def test_a_dropped_queue_ends_its_members(db: Db) -> None:
    id, _ = make(db, 3)
    claim(db, 1)
    assert value(db, "select penstock.drop_queue('work', true)") == 3
    assert counts(db, id) == {"total": 3, "pending": 0, "cancelled": 3}


def test_members_of_all_kinds_can_be_cancelled_together(db: Db) -> None:
    id = value(db, "select penstock.create_batch()")
    for arrays in (
        "delays => array['1 hour'::interval]",
        "group_keys => array['g']",
        "priorities => array[3]",
    ):
        add = f"select penstock.add_to_batch(%s, 'work', array['1'::jsonb], {arrays})"
        db.execute(add, [id])  # type: ignore[call-overload]
    add = "select penstock.add_to_batch(%s, 'work', array_fill('1'::jsonb, array[50]))"
    db.execute(add, [id])
    for id_, token in claim(db, 5):
        db.execute("select penstock.snooze(%s, %s)", [id_, token])
    held = claim(db, 20)
    db.execute("select penstock.reject(%s, %s)", held.pop())
    assert value(db, "select more from penstock.cancel_batch(%s, 10)", id) is True
    assert value(db, "select more from penstock.cancel_batch(%s)", id) is False
    assert counts(db, id) == {"total": 53, "pending": 0, "cancelled": 52, "dead": 1}
    assert value(db, "select state from penstock.batches where id = %s", id) == "finished"
    with pytest.raises(psycopg.Error, match="lost"):
        db.execute("select penstock.ack(%s, %s)", held[0])
    assert value(db, "select (penstock.stats('work')).ready") == 0


def test_members_that_a_cancel_has_left_are_cancelled_later(db: Db, connect: Connect) -> None:
    id, _ = make(db, 30)
    other, _ = make(db, 3)
    [lease] = claim(db, 1)
    db.execute("select penstock.reject(%s, %s)", lease)
    assert value(db, "select penstock.continue_cancels()") == 0
    assert value(db, "select more from penstock.cancel_batch(%s, 10)", id) is True
    assert follows(db) == []
    with db.transaction():
        assert value(db, "select penstock.continue_cancels(10)") == 10
        # Another caller does not wait for this one.
        assert value(connect(), "select penstock.continue_cancels(10)") == 0
    assert counts(db, id) == {"total": 30, "pending": 9, "dead": 1, "cancelled": 20}
    assert value(db, "select state from penstock.batches where id = %s", id) == "cancelling"
    db.execute("select penstock.maintain(true)")
    assert counts(db, id) == {"total": 30, "pending": 0, "dead": 1, "cancelled": 29}
    assert value(db, "select penstock.continue_cancels()") == 0
    assert follows(db) == ["failure", "finish"]
    assert counts(db, other) == {"total": 3, "pending": 3}
    assert value(db, "select count(*) from penstock.batch_change where batch_id = %s", id) == 0
    for wrong in (0, 10_001, None):
        with pytest.raises(psycopg.Error, match="max_count"):
            db.execute("select penstock.continue_cancels(%s)", [wrong])


@pytest.mark.parametrize(("end", "done"), [("commit", 4), ("rollback", 0)])
def test_a_cancel_does_not_wait_for_members_that_an_open_transaction_has_acked(
    end: str, done: int, db: Db, connect: Connect
) -> None:
    db.execute("set statement_timeout = '20s'")
    id, _ = make(db, 60)
    in_place, moved = claim(db, 20), claim(db, 2)
    other = connect(autocommit=False)
    ack_many(other, [*in_place[:2], *moved[:1]])
    ack_many(other, claim(other, 1))
    assert value(db, "select more from penstock.cancel_batch(%s, 10)", id) is True
    db.execute("select setval('penstock.upkeep_at', 0), setval('penstock.tick_at', 0)")
    assert len(claim(db, 1)) == 1
    assert value(db, "select last_value > 0 from penstock.upkeep_at") is True
    assert value(db, "select penstock.continue_cancels(500)") == 48
    assert value(db, "select penstock.continue_cancels(1)") == 0
    db.execute("select penstock.maintain(true)")
    assert counts(db, id) == {"total": 60, "pending": 4, "cancelled": 56}
    assert value(db, "select more from penstock.cancel_batch(%s)", id) is True
    other.execute(end)
    db.execute("select penstock.continue_cancels()")
    expected = {"total": 60, "pending": 0, "done": done, "cancelled": 60 - done}
    assert counts(db, id) == {name: n for name, n in expected.items() if n or name == "pending"}
    assert follows(db) == ["failure", "finish"]


def test_a_cancel_continues_after_members_whose_group_token_is_locked(
    db: Db, connect: Connect
) -> None:
    db.execute("set statement_timeout = '20s'")
    id = value(db, "select penstock.create_batch()")
    add = "select penstock.add_to_batch(%s, 'work', array_fill('1'::jsonb, array[2])"
    delayed = "group_keys => array['g', 'g'], delays => array_fill('1 hour'::interval, array[2])"
    db.execute(f"{add}, {delayed})", [id])
    db.execute(f"{add})", [id])
    other = connect(autocommit=False)
    other.execute("select from penstock.scheduled where group_key = 'g' for update")
    assert value(db, "select more from penstock.cancel_batch(%s, 2)", id) is True
    assert counts(db, id) == {"total": 4, "pending": 2, "cancelled": 2}
    other.rollback()
    assert value(db, "select penstock.continue_cancels()") == 2
    assert value(db, "select state from penstock.batches where id = %s", id) == "finished"


def test_two_callers_continue_the_cancels_of_two_batches(db: Db, connect: Connect) -> None:
    for id, _ in (make(db, 3), make(db, 3)):
        db.execute("select penstock.cancel_batch(%s, 1)", [id])
    with db.transaction():
        assert value(db, "select penstock.continue_cancels()") == 2
        assert value(connect(), "select penstock.continue_cancels()") == 2
    assert value(db, "select count(*) from penstock.batches where state = 'finished'") == 2


def test_batches_that_are_being_cancelled_do_not_delay_others(db: Db) -> None:
    cancelled, _ = make(db, 3)
    db.execute("select penstock.cancel_batch(%s, 1)", [cancelled])
    later, _ = make(db, 1, queue="after")
    ack_many(db, claim(db, queue="after"))
    assert value(db, "select penstock.finish_batches(1)") == 1
    assert value(db, "select state from penstock.batches where id = %s", later) == "finished"
    # It has changes again, so its counts are added up.
    [lease, _] = claim(db)
    db.execute("select penstock.ack(%s, %s)", lease)
    db.execute("select penstock.finish_batches()")
    assert value(db, "select done from penstock.batch where id = %s", cancelled) == 1


def test_a_batch_takes_members_until_it_is_sealed(db: Db, connect: Connect) -> None:
    id, _ = make(db, 1, seal=False)
    ack_many(db, claim(db))
    assert follows(db) == []
    assert value(db, "select state from penstock.batches where id = %s", id) == "open"
    other = connect()
    with other.transaction():
        other.execute("select penstock.add_to_batch(%s, 'work', array['1'::jsonb])", [id])
        db.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            db.execute("select penstock.seal_batch(%s)", [id])
    db.execute("select penstock.seal_batch(%s)", [id])
    assert follows(db) == []
    with pytest.raises(BatchSealedError) as caught, translated():
        db.execute("select penstock.add_to_batch(%s, 'work', array['1'::jsonb])", [id])
    assert caught.value.batch == id
    ack_many(db, claim(db))
    assert follows(db) == ["success", "finish"]
    with pytest.raises(BatchNotFoundError), translated():
        db.execute("select penstock.seal_batch(-1)")


@pytest.mark.parametrize("end", ["seal_batch", "cancel_batch"])
def test_an_old_snapshot_does_not_finish_a_batch_that_has_newer_members(
    end: str, db: Db, connect: Connect
) -> None:
    id, _ = make(db, 1, seal=False)
    ack_many(db, claim(db))
    other = connect()
    other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with other.transaction():
        assert counts(other, id)["done"] == 1
        db.execute("select penstock.add_to_batch(%s, 'work', array['1'::jsonb])", [id])
        other.execute(f"select penstock.{end}(%s)", [id])
    assert follows(db) == []
    ack_many(db, claim(db))
    assert follows(db) == ["success", "finish"]


def test_a_batch_without_members_finishes_when_it_is_sealed(db: Db) -> None:
    id = value(
        db, 'select penstock.create_batch(on_success => \'[{"queue": "after", "payload": "s"}]\')'
    )
    db.execute("select penstock.seal_batch(%s)", [id])
    assert follows(db) == ["s"]


def test_what_follows_waits_while_its_queue_is_full(db: Db) -> None:
    db.execute("select penstock.set_queue('after', '{\"max_depth\": 1}')")
    id, _ = make(db, 1)
    ack_many(db, claim(db))
    assert follows(db) == []
    error = value(db, "select last_error from penstock.batches where id = %s", id)
    assert "is full" in error
    db.execute("select penstock.set_queue('after', '{\"max_depth\": null}')")
    db.execute("select penstock.maintain()")
    assert follows(db) == ["success", "finish"]


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ("{}", "an array of up to 10 objects"),
        ("[1]", "objects with queue"),
        ('[{"queue": "after", "token": 1}]', "objects with queue"),
        ('[{"queue": "missing"}]', "does not exist"),
        ('[{"queue": "penstock.tasks"}]', "does not begin with"),
        ('[{"queue": "after", "payload": 1, "priority": 99}]', "priority"),
    ],
)
def test_what_follows_is_checked_when_the_batch_is_created(
    messages: str, says: str, db: Db
) -> None:
    with pytest.raises(psycopg.Error, match=says):
        db.execute("select penstock.create_batch(on_finish => %s::jsonb)", [messages])


def test_only_producers_make_batches(db: Db) -> None:
    with db.transaction(force_rollback=True):
        db.execute("set local role penstock_consumer")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("select penstock.create_batch()")
    with db.transaction(force_rollback=True):
        db.execute("set local role penstock_producer")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("select penstock.cancel_batch(1)")


def test_finished_batches_are_deleted_after_a_week(db: Db) -> None:
    id, _ = make(db, 1)
    db.execute("select penstock.reject(id, token) from penstock.claim('work')")
    assert follows(db) == ["failure", "finish"]
    db.execute("update penstock.batch set finished_at = now() - interval '8 days'")
    db.execute("select penstock.maintain(true)")
    assert value(db, "select count(*) from penstock.batch") == 0
    assert value(db, "select count(*) from penstock.batch_member") == 0
    # The dead letter stays, and can be redriven.
    assert value(db, "select penstock.redrive('work')") == 1
    ack_many(db, claim(db))
    with pytest.raises(psycopg.Error, match="does not exist"):
        counts(db, id)


# Tasks


async def test_tasks_follow_a_batch_of_calls_and_chains(
    dsn: str, client: AsyncClient, app: App
) -> None:
    await client.create_queue("after")
    seen: list[tuple[str, int | None]] = []

    @app.task(queue="work")
    async def resize(n: int) -> int:
        return n

    @app.task(queue="after")
    async def tell(what: str) -> None:
        seen.append((what, current().batch_id))

    calls = [resize.s(n) for n in range(30)]
    calls_and_chains = [*calls, chain(resize.s(1), resize.s(), resize.s())]
    async with Worker(app, dsn):
        made = await batch(
            iter(calls_and_chains),
            name="thumbnails",
            on_success=tell.s("success"),
            on_failure=tell.s("failure"),
            on_finish=chain(tell.s("finish"), tell.si("after that")),
        ).enqueue()
        found = await made.wait(60)
        await until(lambda: len(seen) == 3, "the messages that follow")
    assert (found.name, found.total, found.done, found.pending) == ("thumbnails", 31, 31, 0)
    assert found.fraction == 1.0
    assert sorted(seen) == [("after that", made.id), ("finish", made.id), ("success", made.id)]
    assert await app.batch(made.id).progress() == found


async def test_a_chain_counts_as_one_member_that_fails_where_it_fails(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def first() -> int:
        return 1

    @app.task(queue="work")
    async def second(n: int) -> None:
        raise Reject("no")

    made = await asyncio.to_thread(batch([chain(first.s(), second.s()), first.s()]).enqueue_sync)
    await drain_async(app, client)
    found = await asyncio.to_thread(made.progress_sync)
    assert (found.total, found.done, found.dead, found.pending) == (2, 1, 1, 0)
    assert (await asyncio.to_thread(made.wait_sync, 30)).state == "finished"


async def test_a_batch_is_cancelled_with_all_that_runs(
    dsn: str, client: AsyncClient, app: App
) -> None:
    running = asyncio.Event()

    @app.task(queue="work", lease_seconds=2)
    async def forever(n: int) -> None:
        running.set()
        await asyncio.Event().wait()

    async with Worker(app, dsn, concurrency=1):
        made = await batch(forever.s(n) for n in range(5)).enqueue()
        await asyncio.wait_for(running.wait(), 30)
        assert await made.cancel() == 5
        found = await made.wait(30)
        assert (found.state, found.cancelled) == ("finished", 5)
        with pytest.raises(TimeoutError):
            await (await batch([forever.options(delay=60).s(1)]).enqueue()).wait(0.05)


async def test_workers_cancel_the_members_that_a_cancel_has_left(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def fine(n: int) -> None: ...

    later = await batch(fine.options(delay=3600).s(n) for n in range(30)).enqueue()
    assert await client.run(cancel_batch(later.id, 10)) == (10, True)
    async with Worker(app, dsn):
        await (await batch([fine.s(1)]).enqueue()).wait(30)  # workers look after each end
        found = await later.wait(30)
    assert (found.cancelled, found.pending) == (30, 0)


async def test_a_batch_that_is_refused_is_cancelled(
    dsn: str, client: AsyncClient, app: App, connect: Connect
) -> None:
    await client.create_queue("small", max_depth=3)

    @app.task(queue="work")
    async def fine(n: int) -> None: ...

    @app.task(queue="small")
    async def small(n: int) -> None: ...

    def calls() -> Iterator[Call[None]]:
        yield from (fine.s(n) for n in range(1000))
        yield from (small.s(n) for n in range(1000))

    for refused, error in (
        (batch(calls()), QueueFullError),
        (batch([*(fine.s(n) for n in range(1000)), fine.s("x")]), TaskArgumentsError),
        (batch([*(fine.s(n) for n in range(1000)), "x"]), InvalidValueError),  # type: ignore[list-item]
        (batch([fine.options(key="k").s(1)]), InvalidValueError),
    ):
        with pytest.raises(error):
            await refused.enqueue()
        db = connect()
        assert value(db, "select count(*) from penstock.batches where state <> 'finished'") == 0
        assert value(db, "select (penstock.stats('work')).ready") == 0
    with pytest.raises(ConfigurationError):
        await batch([]).enqueue()
    with pytest.raises(InvalidValueError, match="on_failure is <Task fine on work>"):
        await batch([fine.s(1)], on_failure=fine).enqueue()  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="another iterable"):
        batch(fine.s(1))  # type: ignore[arg-type]
    with pytest.raises(TimeoutError, match=r"has not finished within 0.01 s"):
        await (await batch([fine.s(1)]).enqueue()).wait(0.01)
    with pytest.raises(BatchNotFoundError):
        await app.batch(10**9).progress()


async def test_a_batch_can_be_part_of_a_transaction(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def fine(n: int) -> None: ...

    with psycopg.connect(dsn) as db:
        made = batch([fine.s(1)]).enqueue_sync(connection=db)
        db.rollback()
    with pytest.raises(BatchNotFoundError):
        await made.progress()
