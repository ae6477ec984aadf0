"""Every way to count a queue counts each message once, in every state and while it moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from .sessions import Connection, rows, value
from .work import Session

STATES = ("ready", "scheduled", "leased", "dead")

# In the order of STATES; the last number is the length of the queue, without dead letters.
WAYS: dict[str, Callable[[Connection], list[int]]] = {
    "stats": lambda mq: _with_length(
        rows(mq, "select ready, scheduled, leased, dead from penstock.stats('work')")[0]
    ),
    "all_stats": lambda mq: _with_length(
        rows(
            mq,
            "select ready, scheduled, leased, dead from penstock.all_stats() where queue = 'work'",
        )[0]
    ),
    "messages": lambda mq: _with_length(
        rows(
            mq,
            """select count(*) filter (where state = 'ready'),
                      count(*) filter (where state = 'scheduled'),
                      count(*) filter (where state = 'leased' and queue !~ 'dlq$'),
                      count(*) filter (where queue ~ 'dlq$')
               from penstock.messages where queue in ('work', 'work.dlq')""",
        )[0]
    ),
}

# Messages of one length, and of those the visible ones.
LENGTHS = {
    "metrics": "select queue_length, queue_visible_length from pgmq.metrics('work')",
    "metrics_all": "select queue_length, queue_visible_length from pgmq.metrics_all()"
    " where queue_name = 'work'",
    "q_work": "select count(*), count(*) filter (where vt <= clock_timestamp()) from pgmq.q_work",
}


def _with_length(counts: tuple[int, ...]) -> list[int]:
    return [*counts, sum(counts[:3])]


@pytest.fixture
def mq(pgmq_dsn: str, session: Session) -> Connection:
    connection = session(pgmq_dsn)
    for queue in ("work", "other"):
        connection.execute("select pgmq.create($1)", [queue])
    return connection


def send(mq: Connection, count: int, **options: str) -> None:
    """Enqueues so many messages in each queue, one call for each."""
    named = "".join(f", {name} => {value}" for name, value in options.items())
    mq.execute(
        f"""select penstock.enqueue(queue, to_jsonb(i){named})
            from generate_series(1, {count}) i, unnest('{{work,other}}'::text[]) queue"""
    )


def move(mq: Connection, count: int, queue: str = "work") -> tuple[list[int], list[int]]:
    """Leases so many messages ten at a time, which moves them to leased_N: ids and tokens."""
    taken: list[tuple[int, int]] = []
    while len(taken) < count:
        size = min(10, count - len(taken))
        taken += rows(mq, "select id, token from penstock.claim($1, $2, 600, 'w')", queue, size)
    return [row[0] for row in taken], [row[1] for row in taken]


def hold(mq: Connection, count: int) -> list[int]:
    """Leases so many messages in place."""
    found = rows(mq, "select id from penstock.claim('work', $1, 600, 'w')", count)
    assert len(found) == count
    return [row[0] for row in found]


def expire(mq: Connection, ids: list[int]) -> None:
    """The leases of these messages, all there are of a claim, ended a second ago."""
    past = "penstock._hold_at(clock_timestamp() - interval '1 second')"
    [[at, until]] = rows(mq, f"select hold, penstock._hold_until(hold) from {past} hold")
    for slot in range(9):
        mq.execute(
            f"update penstock.leased_{slot} set lease_until = $1 where id = any ($2)", [until, ids]
        )
        held = rows(
            mq,
            f"""update penstock.lane_{slot} set hold = $1
                where id = any ($2) and hold <> 0 returning position""",
            *(at, ids),
        )
        mq.execute(
            f"""update penstock.grant_{slot} set hold = $1, lease_until = $2
                where first_position = any ($3)""",
            [at, until, [row[0] for row in held]],
        )


def fill(mq: Connection, few: int) -> dict[str, int]:
    """Messages in every state and every table; says how many of 'work' are in each state."""
    # The last to be enqueued are the last to be claimed, so what is to be leased comes first.
    send(mq, 4 * few + 40)
    mq.execute("select penstock.reject_many($1::bigint[], $2::bigint[])", move(mq, 2 * few))
    moved, _ = move(mq, 2 * few)
    expire(mq, moved[:few])
    expire(mq, hold(mq, 20))
    hold(mq, 20)
    move(mq, few, "work.dlq")
    send(mq, few)
    send(mq, few, delay="interval '1 hour'")
    send(mq, few, delay="interval '2 hours'")
    mq.execute("update penstock.scheduled set due_at = now() where due_at > now() + '100 minutes'")
    send(mq, few, group_key="'g' || i % 7")
    send(mq, few, group_key="'later'", delay="interval '1 hour'")
    return {
        "ready": few + 20 + few + few + few,  # expired and expired in place, new, due, in groups
        "scheduled": 2 * few,
        "leased": few + 20,
        "dead": 2 * few,
    }


def check(mq: Connection, expected: dict[str, int]) -> None:
    counts = [expected[state] for state in STATES]
    length = sum(counts[:3])
    for name, way in WAYS.items():
        assert way(mq) == [*counts, length], name
    for name, query in LENGTHS.items():
        assert rows(mq, query) == [(length, expected["ready"])], name


@pytest.mark.parametrize("few", [1, 1100], ids=["along the index", "by the whole table"])
def test_a_message_is_counted_once_in_its_state(mq: Connection, few: int) -> None:
    expected = fill(mq, few)
    check(mq, expected)
    assert not value(mq, "select estimated from penstock.stats('work')")
    dead_alone = rows(mq, "select ready, scheduled, leased, dead from penstock.stats('work.dlq')")
    assert dead_alone == [(few, 0, 0, few)]


def test_the_overflow_segment_is_counted(mq: Connection) -> None:
    expected = fill(mq, 5)
    mq.execute("select penstock._rotate(early => true)")  # only older segments are cleared
    mq.execute("update penstock.grant_1 set claimed_at = claimed_at - interval '2 seconds'")
    mq.execute("select penstock._clear_oldest(1)")
    assert value(mq, "select count(*) from penstock.lane_0") > 0
    assert value(mq, "select count(*) from penstock.leased_0") > 0
    check(mq, expected)


def test_an_empty_queue_has_no_ages(mq: Connection) -> None:
    query = "select oldest_msg_age_sec, newest_msg_age_sec from pgmq.metrics('work')"
    assert rows(mq, query) == [(None, None)]
    assert value(mq, "select oldest_ready_seconds from penstock.stats('work')") is None
    send(mq, 1)
    assert rows(mq, query) == [(0, 0)]


def test_the_oldest_ready_message_is_found_wherever_it_is(mq: Connection) -> None:
    """An expired lease, a due message and a message of a group are ready."""
    query = "select oldest_ready_seconds > 3600 from penstock.{}"
    for table in ("leased_1", "scheduled", "grouped", "lane_1"):
        send(mq, 3)
        expire(mq, move(mq, 1)[0])
        send(mq, 1, delay="interval '1 hour'")
        mq.execute("update penstock.scheduled set due_at = now()")
        send(mq, 1, group_key="'g'")
        mq.execute(f"update penstock.{table} set enqueued_at = now() - interval '2 hours'")
        assert value(mq, query.format("stats('work')")), table
        assert value(mq, query.format("all_stats() where queue = 'work'")), table
        mq.execute("select penstock.purge('work', true)")


def test_a_sample_of_a_large_table_is_marked_as_an_estimate(mq: Connection) -> None:
    send(mq, 100)
    query = """select total, ready, estimated from penstock._count_table(
                 'lane_1', 'true', 't.hold = 0', exact_blocks => $1)"""
    assert rows(mq, query, 1000) == [(200, 200, False)]
    assert rows(mq, query, 0) == [(200, 200, True)], "all of its blocks are in the sample"


def test_payloads_show_wherever_they_are(mq: Connection) -> None:
    large = "jsonb_build_object('n', 1, 'text', repeat('x', 5000))"
    for payload in ("'{\"n\": 1}'::jsonb", large):
        mq.execute(f"select penstock.enqueue('work', {payload}) from generate_series(1, 40)")
        mq.execute(f"select penstock.enqueue('work', {payload}, delay => '1 hour')")
        mq.execute(f"select penstock.enqueue('work', {payload}, group_key => 'g')")
    move(mq, 2)
    hold(mq, 16)
    mq.execute("select penstock.enqueue('work', null::jsonb, payload_bytes => '\\x00ff')")
    found = rows(mq, "select message from pgmq.q_work")
    assert len(found) == 85
    assert sum(row[0] == "AP8=" for row in found) == 1
    assert sum(isinstance(row[0], dict) and row[0]["n"] == 1 for row in found) == 84
    query = "select read_ct, last_read_at <= now(), vt > now() from pgmq.q_work where read_ct > 0"
    assert rows(mq, query) == [(1, True, True)] * 18


def note_first_row(mq: Connection) -> int:
    """As a claim does once a second: notes where the rows of the queue begin, and says where."""
    # Positions count as settled once their generation is over: a claim may just have begun one.
    for _ in range(4):
        mq.execute(
            """select penstock._sweep(q, (extract(epoch from clock_timestamp()) * 1e6)::bigint),
                      pg_sleep(0.006)
               from penstock.queue q where name = 'work'"""
        )
    mq.execute("select penstock._rescan(q, true, true) from penstock.queue q where name = 'work'")
    found: int = value(
        mq,
        """select pg_sequence_last_value(first_row_register)
           from penstock.queue where name = 'work'""",
    )
    return found


def drain(mq: Connection, count: int) -> None:
    ids, tokens = move(mq, count)
    mq.execute("select penstock.ack_many($1::bigint[], $2::bigint[])", [ids, tokens])


def lengths(mq: Connection) -> set[int]:
    """What each way to count says of the length of the queue: one number, if they agree."""
    return {way(mq)[-1] for way in WAYS.values()} | {
        rows(mq, query)[0][0] for query in LENGTHS.values()
    }


def test_counts_begin_where_the_rows_of_a_queue_begin(mq: Connection) -> None:
    send(mq, 30)
    drain(mq, 20)
    first = value(mq, "select min(msg_id) from pgmq.q_work")
    used = """select penstock._first_row(id, first_row_register, first_row_xid_register)
              from penstock.queue where name = 'work'"""
    # An open transaction of another test keeps a snapshot from being new enough: try again.
    noted = [(note_first_row(mq), value(mq, used)) for _ in range(20)]
    assert (first, first) in noted
    assert lengths(mq) == {10}


def test_an_old_snapshot_counts_what_was_there_when_it_was_taken(
    mq: Connection, pgmq_dsn: str, session: Session
) -> None:
    send(mq, 30)
    before = session(pgmq_dsn)
    before.execute("begin isolation level repeatable read")
    assert lengths(before) == {30}
    drain(mq, 25)
    note_first_row(mq)
    assert lengths(before) == {30}
    assert lengths(mq) == {5}


def test_a_transaction_counts_its_own_messages(
    mq: Connection, pgmq_dsn: str, session: Session
) -> None:
    block = session(pgmq_dsn)
    block.execute("begin")
    value(block, "select penstock.enqueue('work', '1')")
    send(mq, 20)
    drain(mq, 20)
    note_first_row(mq)
    # A later transaction ends, so only the block's own messages make it read all rows.
    value(mq, "select pg_current_xact_id()::text")
    assert lengths(block) == {1}
    assert lengths(mq) == {0}


def test_messages_of_a_long_transaction_are_counted_once_it_commits(
    mq: Connection, pgmq_dsn: str, session: Session
) -> None:
    block = session(pgmq_dsn)
    block.execute("begin")
    rows(block, "select penstock.enqueue_many('work', array_fill('1'::jsonb, array[20]))")
    send(mq, 20)
    drain(mq, 20)
    note_first_row(mq)
    block.execute("commit")
    assert lengths(mq) == {20}
    hold(mq, 20)  # Leased in place: the floor may rise above them, the first row may not.
    note_first_row(mq)
    assert lengths(mq) == {20}


def test_claims_that_are_rolled_back_are_counted(
    mq: Connection, pgmq_dsn: str, session: Session
) -> None:
    send(mq, 30)
    block = session(pgmq_dsn)
    block.execute("begin")
    move(block, 10)
    note_first_row(mq)
    block.execute("rollback")
    assert lengths(mq) == {30}


def test_moves_between_tables_are_never_missed_or_seen_twice(
    mq: Connection, pgmq_dsn: str, session: Session
) -> None:
    """Messages go from lane to lease and back, by few and by many, while others count them."""
    total = 300
    send(mq, total)
    stop = threading.Event()
    failures: list[BaseException] = []

    def repeat(act: Callable[[Connection], object]) -> None:
        caller = session(pgmq_dsn)
        try:
            while not stop.is_set():
                act(caller)
        except BaseException as error:
            failures.append(error)

    def go_round(size: int, caller: Connection) -> None:
        taken = rows(caller, f"select id, token from penstock.claim('work', {size})")
        caller.execute(
            "select penstock.snooze_many($1::bigint[], $2::bigint[])",
            [[row[0] for row in taken], [row[1] for row in taken]],
        )

    acts = [note_first_row, *(partial(go_round, size) for size in (1, 10, 40))]
    movers = [threading.Thread(target=repeat, args=[act]) for act in acts]
    for mover in movers:
        mover.start()
    try:
        for _ in range(60):
            for name, way in WAYS.items():
                assert way(mq)[-1] == total, name
            for name, query in LENGTHS.items():
                assert rows(mq, query)[0][0] == total, name
    finally:
        stop.set()
        for mover in movers:
            mover.join()
    assert failures == []
