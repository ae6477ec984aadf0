"""A claim looks at a queue, then its first batch is committed, then the claim takes the members.

The token of such a claim says that the queue has no members. They are counted nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.db.migrations import Migrator

from .batches_in_sql import Connect, Db, ack_many, claim, counts, follows, make, value

HISTORY_BIT = 16
MEMBERS = 20
Lease = tuple[int, int]


@pytest.fixture
def claim_across(db: Db, connect: Connect) -> Callable[..., tuple[int, list[Lease]]]:
    """Claims members of a batch that is committed in the middle of the claim."""

    def run(count: int, statement: Callable[..., list[Lease]] = claim) -> tuple[int, list[Lease]]:
        other, watch = connect(), connect()
        statement(other, count)  # the first claim of a session is not like the others
        with ThreadPoolExecutor(1) as pool:
            with db.transaction():
                # The claim looks at its queue, and waits with the statement that takes messages.
                for segment in range(9):
                    db.execute(f"lock table penstock.lane_{segment} in share row exclusive mode")
                id, _ = make(db, MEMBERS)
                claimed = pool.submit(statement, other, count)
                waits = "select wait_event_type from pg_stat_activity where pid = %s"
                while watch.execute(waits, [other.info.backend_pid]).fetchone() != ("Lock",):
                    assert not claimed.done()
            leases = claimed.result()
        assert len(leases) == min(count, MEMBERS)
        return id, leases

    return run


@pytest.fixture(autouse=True)
def no_history(db: Db) -> None:
    db.execute("select penstock.set_queue(%s, '{\"keep_history\": 0}')", ["work"])


def rest(db: Db) -> None:
    if leases := claim(db, MEMBERS):
        ack_many(db, leases)


@pytest.mark.parametrize("count", [1, 5, MEMBERS])
@pytest.mark.parametrize("many", [False, True])
def test_they_are_counted_when_they_are_acked(
    many: bool, count: int, db: Db, claim_across: Callable[..., tuple[int, list[Lease]]]
) -> None:
    id, leases = claim_across(count)
    assert {token & HISTORY_BIT for _, token in leases} == {0}
    if many:
        ack_many(db, leases)
    else:
        for lease in leases:
            db.execute("select penstock.ack(%s, %s)", lease)
    assert counts(db, id)["done"] == count
    rest(db)
    assert counts(db, id) == {"total": MEMBERS, "pending": 0, "done": MEMBERS}
    assert follows(db) == ["success", "finish"]


def read(db: Db, count: int) -> list[Lease]:
    """As a consumer through the functions of PGMQ does."""
    return [
        (row[0], 0) for row in db.execute("select msg_id from pgmq.read('work', 60, %s)", [count])
    ]


@pytest.mark.parametrize("end", ["delete", "delete_many", "archive"])
def test_they_are_counted_when_they_are_settled_by_id(
    end: str, db: Db, claim_across: Callable[..., tuple[int, list[Lease]]]
) -> None:
    Migrator(db, contracts=["pgmq"]).up()
    id, leases = claim_across(MEMBERS, read)
    ids = [lease[0] for lease in leases]
    if end == "delete_many":
        db.execute("select pgmq.delete('work', %s::bigint[])", [ids])
    else:
        for each in ids:
            db.execute(f"select pgmq.{end}('work', %s::bigint)", [each])
    assert counts(db, id) == {"total": MEMBERS, "pending": 0, "done": MEMBERS}
    assert follows(db) == ["success", "finish"]


def test_they_are_counted_when_they_become_dead_letters(
    db: Db, claim_across: Callable[..., tuple[int, list[Lease]]]
) -> None:
    id, leases = claim_across(MEMBERS)
    for lease in leases:
        db.execute("select penstock.reject(%s, %s, 'no')", lease)
    assert counts(db, id) == {"total": MEMBERS, "pending": 0, "dead": MEMBERS}
    assert value(db, "select penstock.redrive('work')") == MEMBERS
    assert counts(db, id)["pending"] == MEMBERS
