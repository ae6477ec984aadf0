"""The mdb_queue contract under load: many sessions, deep queues, every plan."""

from __future__ import annotations

import re
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import RawCursor

from .sessions import Connection, count, rows, value
from .statements import ACK, CLAIM, ENQUEUE, EXTEND, NACK, claim_by

FILL = """insert into mdb_queue.messages (queue_name, payload)
          select 'order-events', to_jsonb(n) from generate_series(1, $1) n"""


class Worker(threading.Thread):
    """Runs all statements of the contract until the queue is empty: now and then it nacks, or
    lets a claim go back with its transaction."""

    def __init__(self, dsn: str, name: str, goal: int, settled: Counter[int]) -> None:
        super().__init__()
        self.dsn, self.worker, self.goal, self.settled = dsn, name, goal, settled
        self.delivered: Counter[tuple[int, int]] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with psycopg.connect(self.dsn, autocommit=True, cursor_factory=RawCursor) as db:
                number = 0
                while sum(self.settled.values()) < self.goal:
                    number += 1
                    self.turn(db, number)
        except BaseException as error:
            self.error = error

    def turn(self, db: Connection, number: int) -> None:
        if number % 20 == 0:
            with db.transaction(force_rollback=True):
                rows(db, claim_by(self.worker))
            return
        for claimed in rows(db, claim_by(self.worker)):
            message, payload, attempt = claimed[:3]
            self.delivered[message, attempt] += 1
            if (payload + attempt) % 50 == 0:
                assert count(db, NACK, message, self.worker, 0, "again") == 1
                continue
            if payload % 25 == 0:
                assert count(db, EXTEND, message, self.worker, 60) == 1
            assert count(db, ACK, message, self.worker) == 1
            self.settled[message] += 1


@pytest.mark.parametrize(
    "messages", [3_000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_eight_sessions_claim_each_message_once_for_each_lease(
    db: Connection, dsn: str, messages: int
) -> None:
    rows(db, "insert into mdb_queue.queues (name, max_attempts) values ('order-events', 100)")
    rows(db, FILL, messages)
    settled: Counter[int] = Counter()
    crowd = [Worker(dsn, f"worker-{n}", messages, settled) for n in range(8)]
    for worker in crowd:
        worker.start()
    for worker in crowd:
        worker.join()
        if worker.error is not None:
            raise worker.error
    delivered = sum((worker.delivered for worker in crowd), Counter[tuple[int, int]]())
    assert set(delivered.values()) == {1}, "no message twice at the same attempt"
    assert len(settled) == messages
    assert set(settled.values()) == {1}
    assert value(db, "select count(*) from mdb_queue.messages") == 0
    print(f"{messages} messages, {len(delivered)} claims of one, each once, none lost")


PLANS = {
    "as it comes": "",
    "merge joins": "set enable_hashjoin = off; set enable_nestloop = off",
    "nested loops": "set enable_hashjoin = off; set enable_mergejoin = off",
    "no sequential scans": "set enable_seqscan = off",
}


@pytest.mark.parametrize("settings", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("queues", [1, 2, 40])
def test_whatever_the_plan_claims_come_through(db: Connection, queues: int, settings: str) -> None:
    names = ["order-events", *(f"q{n}" for n in range(1, queues))]
    # Not the first in the table: a plan that begins with another queue must not end there.
    for name in reversed(names):
        rows(db, "select penstock.create_queue($1)", name)
        rows(db, "insert into mdb_queue.messages (queue_name, payload) values ($1, '0')", name)
    rows(db, FILL, 50)
    for table in ("penstock.queue", "penstock.lane_1", "penstock.leased_1"):
        rows(db, f"analyze {table}")
    for setting in filter(None, settings.split(";")):
        rows(db, setting)
    came: list[Any] = []
    for _ in range(12):
        came += rows(db, CLAIM)
    assert len({row[0] for row in came}) == 51
    assert {row[2] for row in came} == {1}
    others = "select count(*) from mdb_queue.messages where attempt_count > 0 and queue_name <> $1"
    assert value(db, others, "order-events") == 0


def test_however_many_leases_ran_out_claims_come_through(db: Connection) -> None:
    """A claim is planned as if it looked at them, too."""
    rows(db, "select penstock.create_queue('another')")
    rows(db, "insert into mdb_queue.queues (name) values ('order-events')")
    rows(db, FILL, 50)
    rows(
        db,
        """insert into penstock.leased_1 (token, lease_until, position, watched, id, enqueued_at,
               first_claimed_at, claimed_at, queue_id, priority, attempt, max_attempts, payload)
           select -9000000000000000000 + 32 * n, now() - interval '1 h', n, false, 1000000000 + n,
               now(), now(), now(), -1, 0, 1, 5, '0' from generate_series(1, 250000) n""",
    )
    rows(db, "analyze penstock.leased_1")
    before = fetched(db, "leased")
    assert [len(rows(db, CLAIM)) for _ in range(3)] == [10, 10, 10]
    assert fetched(db, "leased") - before < 10_000, "it sweeps some, and looks at no others"


def test_a_claim_does_not_look_at_the_whole_queue(db: Connection) -> None:
    rows(db, "insert into mdb_queue.queues (name) values ('order-events')")
    rows(db, FILL, 20_000)
    rows(db, CLAIM)
    for n in range(3):
        # From the seventh on, one plan serves every parameter.
        rows(db, f"analyze penstock.lane_{n}")
    before = fetched(db, "lane")
    for _ in range(10):
        assert len(rows(db, claim_by("w", "$1"), 10)) in range(1, 11)
        assert len(rows(db, CLAIM)) == 10
    assert fetched(db, "lane") - before < 5_000


def fetched(db: Connection, state: str) -> int:
    """How many messages of this state were looked at so far."""
    rows(db, "select pg_stat_force_next_flush()")
    query = """select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables
               where schemaname = 'penstock' and starts_with(relname, $1)"""
    return int(value(db, query, f"{state}_"))


def test_the_reference_runs_in_psql(dsn: str, pg_bin: Path) -> None:
    def bound(statement: str, *values: str) -> str:
        for n, text in enumerate(values, 1):
            statement = statement.replace(f"${n}", text)
        return statement

    script = "\n".join(
        [
            "insert into mdb_queue.queues (name) values ('order-events');",
            bound(ENQUEUE, "'order-events'", """'{"order_id": 1001}'""", "0"),
            bound(ENQUEUE, "'order-events'", """'{"order_id": 1002}'""", "30"),
            CLAIM,
            bound(EXTEND, "1", "'worker-1'", "90"),
            bound(NACK, "1", "'worker-1'", "0", "'smtp is down'"),
            CLAIM,
            bound(ACK, "1", "'worker-1'"),
            bound(ACK, "1", "'worker-1'"),
        ]
    )
    assert tags_of(pg_bin, dsn, script) == [
        *["INSERT 0 1"] * 3,
        *["UPDATE 1"] * 4,
        "DELETE 1",
        "DELETE 0",
    ]


def test_the_session_in_the_docs_runs_in_psql(dsn: str, pg_bin: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "mdb_queue.md"
    [script] = re.findall(r"```sql\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    # The nack and the ack at its end cannot both find the claim.
    tags = ["INSERT 0 1", "INSERT 0 1", "UPDATE 1", "UPDATE 1", "UPDATE 1", "DELETE 0"]
    assert tags_of(pg_bin, dsn, script) == tags


def tags_of(pg_bin: Path, dsn: str, script: str) -> list[str]:
    """Runs a script, and says what psql said of its statements."""
    done = subprocess.run(
        [pg_bin / "psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--no-align", "-t", dsn],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if re.match("INSERT|UPDATE|DELETE", line)]
