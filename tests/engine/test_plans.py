"""The statements of the fast paths use their indexes, with any statistics.

Plans are kept for a session, and those made on an empty table would be sequential scans: so each
check is made with sessions that began when there was nothing, one row, and many.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.held import RUN_OUT

from penstock.sql.expand import Expander

MANY = 20_000

# Where everything that waits or is leased lies; queue, dead and history are looked at elsewhere.
TABLES = """select relname, seq_scan, seq_tup_read, coalesce(idx_tup_fetch, 0)
            from pg_stat_xact_user_tables where schemaname = 'penstock'
            and relname ~ '^(lane|grant|leased|body)_[1-8]$|^(scheduled|grouped|message_.*)$'"""


class Reads:
    """What one transaction reads, as PostgreSQL itself counts it."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def of(self, query: str, *arguments: Any) -> tuple[list[str], int]:
        """The tables that were scanned as a whole, and how many rows were fetched by index."""
        connection = self.engine.connection
        # Upkeep has its own clocks, and is examined separately.
        connection.execute(
            """select setval('penstock.tick_at', x.soon), setval('penstock.sweep_1', x.soon),
                      setval('penstock.rescan_1', x.soon)
               from (select (extract(epoch from now()) * 1e6)::bigint + 900000 & ~1::bigint
                    ) x (soon)"""
        )
        with connection.transaction():
            before = {row[0]: row[1:] for row in connection.execute(TABLES)}
            connection.execute(query, arguments)
            after = {row[0]: row[1:] for row in connection.execute(TABLES)}
        nothing = (0, 0, 0)
        scanned = [t for t, row in after.items() if row[0] > before.get(t, nothing)[0]]
        fetched = sum(row[2] - before.get(t, nothing)[2] for t, row in after.items())
        return scanned, fetched


STATEMENTS = {
    "claim one": ("select penstock.claim('work', 1, 600)", 1),
    "claim ten": ("select penstock.claim('work', 10, 600)", 10),
    "ack": ("select penstock.ack(max(id), max(token)) from penstock.leased_1", 1),
    "ack of a lost lease": ("select penstock.ack_many('{1}', '{1}')", 0),
    "extend": ("select penstock.extend_many('{1}', '{33}')", 0),
    "nack": ("select penstock.nack_many('{1}', '{33}')", 0),
    "enqueue": ("select penstock.enqueue('work', '1')", 0),
    "enqueue with a key": ("select penstock.enqueue('work', '1', key => 'k')", 2),
    "enqueue to a group": ("select penstock.enqueue('work', '1', group_key => 'g')", 2),
    "first live": (
        "select penstock._first_live(1, id, 0::smallint, pg_sequence_last_value(floors[1]))"
        " from penstock.queue",
        1,
    ),
    "timers": ("select penstock._timers_due()", 0),
    "timers of a queue": ("select penstock._run_timers(1, 10)", 0),
}


@pytest.fixture
def sessions(engine: Any, caller: Any) -> list[Any]:
    """Sessions that have run everything already when there was nothing, and so keep their plans."""
    engine.create("work")
    old = [caller() for _ in range(2)]
    for session in old:
        for _ in range(6):  # from the sixth time on, PostgreSQL may settle for a generic plan
            for query, _ in STATEMENTS.values():
                with session.connection.transaction(force_rollback=True):
                    _run_quietly(session, query)
    return old


def _run_quietly(session: Any, query: str) -> None:
    if "from penstock.leased_1" not in query:  # there is nothing to ack yet
        session.connection.execute(query)


def fill(engine: Any, rows: int, wait_for: Any) -> None:
    """So many messages, half of them leased, and as many that are due tomorrow."""
    for _ in range(0, rows, 10_000):
        engine.enqueue_many("work", min(rows, 10_000))
    schedule(engine, rows)
    if rows:
        engine.claim("work", min(10_000, rows), 600)
    if rows == MANY:
        wait_for(
            lambda: engine.claim("work", 1, 600) and engine.floor("work") > 10_000,
            "the floor past what is leased",
        )


def schedule(engine: Any, rows: int) -> None:
    engine.connection.execute(
        """insert into penstock.scheduled (due_at, id, enqueued_at, queue_id, priority, attempt,
             max_attempts, payload)
           select now() + interval '1 day', -i, now(), 1, 0, 0, 5, '1'
           from generate_series(1, %s) i""",
        [rows],
    )


@pytest.mark.parametrize("rows", [0, 1, MANY])
@pytest.mark.parametrize("after", ["nothing", "analyze", "vacuum analyze"])
def test_fast_paths_use_their_indexes(
    engine: Any, caller: Any, sessions: list[Any], rows: int, after: str, wait_for: Any
) -> None:
    fill(engine, rows, wait_for)
    if after != "nothing":
        engine.connection.execute(after)
    for session in (*sessions, caller()):
        reads = Reads(session)
        for name, (query, expected) in STATEMENTS.items():
            if "from penstock.leased_1" in query:
                check_ack(engine, reads)
                continue
            scanned, fetched = reads.of(query)
            assert scanned == [], name
            # Rows that were deleted a moment ago may still have to be stepped over.
            assert fetched <= 3 * expected + 100, name


def check_ack(engine: Any, reads: Reads) -> None:
    lease = engine.connection.execute("select max(token), max(id) from penstock.leased_1")
    token, _ = lease.fetchone()
    if token is None:
        return
    message = engine.value("select id from penstock.leased_1 where token = %s limit 1", token)
    scanned, fetched = reads.of("select penstock.ack(%s, %s)", message, token)
    assert scanned == []
    # An index on (token, id): one claim's messages are not read for one of them.
    assert fetched <= 10


@pytest.mark.parametrize("pinned", ["reader"], indirect=True)
def test_a_claim_reads_no_further_than_it_takes_however_much_went_before(
    engine: Any, caller: Any, pinned: str
) -> None:
    """The floor lets claims step over what is dead, and cannot be removed while the pin holds."""
    engine.create("work")
    for _ in range(10):
        engine.drain("work", set(engine.enqueue_many("work", 2000)))
    engine.enqueue_many("work", 100)
    engine.value("select setval('penstock.sweep_1', 0)")
    engine.claim("work")  # moves the floor
    reads = Reads(caller())
    scanned, fetched = reads.of("select penstock.claim('work', 10)")
    assert scanned == []
    assert fetched < 500, "20,000 messages went before"


def test_far_off_messages_are_not_read_by_timers(engine: Any) -> None:
    """The scan is bounded on the right: what is due later, or leased for long, is not read."""
    engine.create("work")
    schedule(engine, 50_000)
    engine.enqueue_many("work", 10_000)
    engine.claim("work", 10_000, 43200)
    engine.connection.execute("analyze")
    for register in ("timer_rescan_at", "due_floor", "lease_floor"):
        engine.value(f"select setval('penstock.{register}', 0)")
    scanned, fetched = Reads(engine).of("select penstock._run_timers(null, 500)")
    assert (scanned, fetched) == ([], 0)


def test_an_ack_of_two_claims_reads_no_more_than_it_settles(engine: Any, caller: Any) -> None:
    """A join of many pairs and few leases would look at all pairs for each of the leases."""
    engine.create("work")
    engine.enqueue_many("work", 2_000)
    engine.claim("work", 1_300, 600)
    leases = engine.claim("work", 350, 600) + engine.claim("work", 350, 600)
    ids, tokens = ([each[n] for each in leases] for n in (0, 1))
    ends = Expander().text(
        "select count(distinct {token.lease_end(t)}) from unnest(%s::bigint[]) t"
    )
    assert engine.value(ends, tokens) == 2, "two claims hold them"
    scanned, fetched = Reads(caller()).of(ACK, ids, tokens)
    assert scanned == []
    assert fetched <= len(ids) + 100, "of 2,000 that are leased"


@pytest.mark.parametrize("pinned", ["reader"], indirect=True)
def test_due_grants_are_looked_up_one_by_one(engine: Any, caller: Any, pinned: str) -> None:
    """VACUUM finds the lane empty, though it is full of what is dead and cannot be removed. A join
    of grants with an empty lane would read all of it for each of them."""
    engine.create("work")
    grants = 200
    for _ in range(grants):
        ids = engine.enqueue_many("work", 10)
        assert engine.ack(engine.claim("work", 10)) == set(ids)
    engine.connection.execute("vacuum analyze penstock.lane_1, penstock.grant_1")
    engine.connection.execute(RUN_OUT)
    for look in LOOKS_AT_GRANTS:
        plan = caller().connection.execute(f"explain (analyze, buffers) {look}").fetchall()
        read = re.search(r"shared hit=(\d+)", str(plan))
        assert read is not None
        assert int(read[1]) < 30 * grants, look


LOOKS_AT_GRANTS = [
    "select * from penstock._pull_expired(1, null, '-infinity', clock_timestamp(), 500)",
    "select penstock.stats('work')",
    "select * from penstock.all_stats()",
    "select * from penstock.messages where state = 'leased'",
    "select * from penstock._browse_leases('lapsed', null, true, null, null, 50, 1000)",
]

ACK = "select count(*) from penstock.ack_many(%s::bigint[], %s::bigint[])"


@pytest.mark.parametrize("name", ["claim", "_claim_by_id", "ack_many", "_pull_by_id"])
def test_plans_are_made_once(engine: Any, name: str) -> None:
    """On analyzed tables PostgreSQL would rather plan each claim again: twice the time."""
    query = "select proconfig from pg_proc where proname = %s and pronamespace::regnamespace::text"
    assert "plan_cache_mode=force_generic_plan" in engine.value(f"{query} = 'penstock'", name)
