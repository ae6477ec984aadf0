"""The mdb_queue contract: its statements as printed, and what they mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from .sessions import Connection, count, let_leases_run_out, rows, value
from .statements import ACK, CLAIM, ENQUEUE, EXTEND, NACK, claim_by

Session = Callable[..., Connection]
QUEUE = "order-events"


@pytest.fixture(autouse=True)
def queue(db: Connection) -> None:
    make_queue(db)


def make_queue(db: Connection, **settings: Any) -> None:
    columns = {"name": QUEUE, "visibility_timeout_seconds": 60, **settings}
    names, places = ", ".join(columns), ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    rows(db, "delete from mdb_queue.queues where name = $1", QUEUE)
    rows(db, f"insert into mdb_queue.queues ({names}) values ({places})", *columns.values())


def enqueue(db: Connection, payload: Any, delay: int = 0, queue: str = QUEUE) -> int:
    return int(value(db, ENQUEUE, queue, json.dumps(payload), delay))


def message(db: Connection, number: int) -> dict[str, Any]:
    [found] = rows(db, "select to_jsonb(m) from mdb_queue.messages m where id = $1", number)
    return dict(found[0])


def visible_at(db: Connection, number: int) -> datetime:
    [(time,)] = rows(db, "select visible_at from mdb_queue.messages where id = $1", number)
    assert isinstance(time, datetime)
    return time


def test_enqueue_claim_and_ack(db: Connection) -> None:
    ids = [enqueue(db, {"order": n}) for n in range(12)]
    claimed = rows(db, CLAIM)
    assert [(row[0], row[1], row[2]) for row in claimed] == [
        (ids[n], {"order": n}, 1) for n in range(10)
    ]
    assert [row[0] for row in rows(db, claim_by("worker-2"))] == ids[10:]
    assert rows(db, CLAIM) == []
    assert [count(db, ACK, number, "worker-1") for number in ids[:10]] == [1] * 10
    assert [count(db, ACK, number, "worker-1") for number in ids] == [0] * 12
    assert value(db, "select count(*) from mdb_queue.messages") == 2
    assert value(db, "select count(*) from penstock.history where state = 'done'") == 10


def test_a_message_shows_what_the_contract_says_of_it(db: Connection) -> None:
    before = value(db, "select clock_timestamp()")
    number = enqueue(db, {"order": 1}, delay=600)
    after = value(db, "select clock_timestamp()")
    assert {**message(db, number), "visible_at": "", "enqueued_at": ""} == {
        "id": number,
        "queue_name": QUEUE,
        "payload": {"order": 1},
        "attempt_count": 0,
        "max_attempts": 5,
        "visible_at": "",
        "claimed_by": None,
        "last_error": None,
        "enqueued_at": "",
    }
    assert before <= visible_at(db, number) - timedelta(seconds=600) <= after
    assert rows(db, CLAIM) == []


def test_nothing_is_enqueued_where_there_is_no_such_queue(db: Connection) -> None:
    assert rows(db, ENQUEUE, "elsewhere", "{}", 0) == []
    with pytest.raises(psycopg.Error, match="queue 'elsewhere' does not exist"):
        rows(db, "insert into mdb_queue.messages (queue_name, payload) values ('elsewhere', '1')")


def test_a_claim_lasts_as_long_as_it_says(db: Connection) -> None:
    for seconds in (60, 7, 7, 50_000):
        number = enqueue(db, 1)
        before = value(db, "select clock_timestamp()")
        rows(db, CLAIM.replace("60", str(seconds)))
        after = value(db, "select clock_timestamp()")
        found = message(db, number)
        assert (found["claimed_by"], found["attempt_count"]) == ("worker-1", 1)
        assert before <= visible_at(db, number) - timedelta(seconds=seconds) <= after
        assert count(db, ACK, number, "worker-1") == 1


def test_nack_gives_back_with_a_note(db: Connection) -> None:
    number = enqueue(db, 1)
    for attempt in (1, 2):
        [row] = rows(db, CLAIM)
        assert row[2] == attempt
        # The same note twice is a nack both times.
        assert count(db, NACK, number, "worker-1", 0, "smtp is down") == 1
        found = message(db, number)
        assert (found["last_error"], found["claimed_by"]) == ("smtp is down", None)
        assert found["attempt_count"] == attempt
        assert count(db, ACK, number, "worker-1") == 0
    [row] = rows(db, CLAIM)
    assert count(db, NACK, number, "worker-1", 600, "later") == 1
    assert rows(db, CLAIM) == []
    assert value(db, "select count(*) from penstock.attempts where error = 'smtp is down'") == 2


def test_extend_keeps_the_message(db: Connection) -> None:
    number = enqueue(db, 1)
    rows(db, CLAIM)
    before = value(db, "select clock_timestamp()")
    assert count(db, EXTEND, number, "worker-1", 600) == 1
    after = value(db, "select clock_timestamp()")
    assert before <= visible_at(db, number) - timedelta(seconds=600) <= after
    assert rows(db, claim_by("worker-2")) == []
    assert count(db, EXTEND, number, "worker-2", 600) == 0
    assert count(db, ACK, number, "worker-1") == 1


def test_whose_claim_was_taken_over_changes_nothing(db: Connection) -> None:
    number = enqueue(db, 1)
    rows(db, CLAIM)
    let_leases_run_out(db)
    [taken] = rows(db, claim_by("worker-2"))
    assert taken[:3] == (number, 1, 2)
    assert count(db, ACK, number, "worker-1") == 0
    assert count(db, NACK, number, "worker-1", 0, "late") == 0
    assert count(db, EXTEND, number, "worker-1", 60) == 0
    assert message(db, number)["claimed_by"] == "worker-2"
    assert count(db, ACK, number, "worker-2") == 1


def test_a_late_ack_counts_while_nobody_has_taken_over(db: Connection) -> None:
    number = enqueue(db, 1)
    rows(db, CLAIM)
    let_leases_run_out(db)
    assert count(db, ACK, number, "worker-1") == 1
    assert rows(db, CLAIM) == []


def test_a_claim_sweeps_what_is_over_budget_to_the_dead_messages(db: Connection) -> None:
    make_queue(db, max_attempts=2)
    number = enqueue(db, {"order": 1})
    for _ in range(2):
        assert [row[0] for row in rows(db, CLAIM)] == [number]
        let_leases_run_out(db)
    assert rows(db, CLAIM) == []
    columns = "id, queue_name, payload, attempt_count, max_attempts, last_error"
    assert rows(db, f"select {columns} from mdb_queue.dead_messages") == [
        (number, QUEUE, {"order": 1}, 2, 2, "the lease expired")
    ]
    assert value(db, "select count(*) from mdb_queue.messages") == 0
    assert count(db, "delete from mdb_queue.dead_messages where id = $1", number) == 1
    assert value(db, "select count(*) from mdb_queue.dead_messages") == 0


def test_without_a_dlq_exhausted_messages_are_not_saved(db: Connection) -> None:
    make_queue(db, max_attempts=1, dlq_enabled=False)
    number = enqueue(db, 1)
    rows(db, CLAIM)
    assert count(db, NACK, number, "worker-1", 0, "no") == 1
    assert rows(db, CLAIM) == []
    assert value(db, "select count(*) from mdb_queue.dead_messages") == 0
    assert value(db, "select state from penstock.history where id = $1", number) == "dead"


def test_all_of_it_is_part_of_the_applications_transaction(
    db: Connection, session: Session
) -> None:
    kept = enqueue(db, "kept")
    app = session(autocommit=False)
    enqueue(app, "never")
    assert kept in [row[0] for row in rows(app, CLAIM)]
    assert rows(db, CLAIM) == [], "what another transaction has claimed is skipped, not waited for"
    app.rollback()
    [row] = rows(db, CLAIM)
    assert row[:3] == (kept, "kept", 1)

    assert count(app, ACK, kept, "worker-1") == 1
    app.rollback()
    assert count(app, NACK, kept, "worker-1", 60, "no") == 1
    app.rollback()
    assert count(app, ACK, kept, "worker-1") == 1
    app.commit()
    assert value(db, "select count(*) from mdb_queue.messages") == 0


def test_open_transactions_claim_different_messages(db: Connection, session: Session) -> None:
    ids = [enqueue(db, n) for n in range(25)]
    sessions = [session(autocommit=False) for _ in range(3)]
    claimed = [[row[0] for row in rows(s, claim_by(f"w{n}"))] for n, s in enumerate(sessions)]
    assert [len(part) for part in claimed] == [10, 10, 5]
    assert sorted(number for part in claimed for number in part) == ids
    for s in sessions:
        s.commit()
    assert rows(db, CLAIM) == []


def test_a_savepoint_takes_a_claim_back(db: Connection, session: Session) -> None:
    number = enqueue(db, 1)
    app = session(autocommit=False)
    rows(app, "savepoint s")
    assert len(rows(app, CLAIM)) == 1
    rows(app, "rollback to s")
    assert [row[0] for row in rows(app, CLAIM)] == [number]
    app.commit()
    assert message(db, number)["attempt_count"] == 1


@pytest.mark.parametrize("limit", [1, 3, 40])
def test_a_limit_may_be_a_parameter(db: Connection, limit: int) -> None:
    ids = [enqueue(db, n) for n in range(30)]
    statement, came = claim_by("w", "$1"), []
    while claimed := rows(db, statement, limit):
        assert len(claimed) <= limit
        came += [row[0] for row in claimed]
    assert came == ids, "in order: what is not taken goes back to its place"
    assert {row[0] for row in rows(db, "select attempt_count from mdb_queue.messages")} == {1}


def test_a_claim_may_reach_over_segments(db: Connection) -> None:
    ids = []
    for n in range(12):
        ids.append(enqueue(db, n))
        if n % 4 == 3:
            rows(db, "select penstock._rotate()")
    statement = claim_by("w", "$1")
    # All three segments are claimed from, by a guess, and two give back.
    assert [row[0] for row in rows(db, statement, 6)] == ids[:6]
    assert [row[0] for row in rows(db, CLAIM)] == ids[6:]
    found = "select id, attempt_count, claimed_by from mdb_queue.messages order by id"
    workers = ["w"] * 6 + ["worker-1"] * 6
    assert rows(db, found) == [(number, 1, workers[n]) for n, number in enumerate(ids)]


def test_a_claim_has_the_same_terms_for_all_its_messages(db: Connection) -> None:
    ids = [enqueue(db, n) for n in range(3)]
    with pytest.raises(psycopg.Error, match="allowed: the same for all messages of a claim"):
        rows(db, CLAIM.replace("'worker-1'", "'worker-' || m.id"))
    assert [row[0] for row in rows(db, CLAIM)] == ids


def test_a_claim_of_other_words_works_too(db: Connection) -> None:
    ids = [enqueue(db, {"kind": "ab"[n % 2]}) for n in range(30)]
    chosen = CLAIM.replace("ORDER BY", "AND payload ->> 'kind' = 'b' ORDER BY")
    assert [row[0] for row in rows(db, chosen)] == ids[1:20:2]
    assert [row[0] for row in rows(db, CLAIM.replace("m.id IN", "m.id = ANY"))] == ids[0:20:2]
    in_cte = f"with c as ({CLAIM.strip().removesuffix(';')}) select id from c order by id"
    assert [row[0] for row in rows(db, in_cte)] == ids[20:30]
    assert count(db, "delete from mdb_queue.messages where claimed_by = 'worker-1'") == 30


def test_a_claim_inside_a_function_works_too(db: Connection, session: Session) -> None:
    ids = [enqueue(db, n) for n in range(12)]
    body = CLAIM[CLAIM.index("UPDATE") :].strip().removesuffix(";")
    rows(
        db,
        f"create function take() returns setof bigint language plpgsql as $$ begin "
        f"return query with c as ({body}) select id from c order by id; end $$",
    )
    app = session(autocommit=False)
    assert [row[0] for row in rows(app, "select take()")] == ids[:10]
    assert [row[0] for row in rows(db, "select take()")] == ids[10:]
    app.rollback()
    assert [row[0] for row in rows(db, "select take()")] == ids[:10]
    let_leases_run_out(db)
    assert len(rows(db, "select take()")) == 10
    assert {row[0] for row in rows(db, "select attempt_count from mdb_queue.messages")} == {1, 2}


def test_one_queue_in_every_plane(db: Connection) -> None:
    assert value(db, "select max_attempts from penstock.queues where name = $1", QUEUE) == 5
    plain = value(db, "select penstock.enqueue('order-events', '1')")
    urgent = value(db, "select penstock.enqueue('order-events', '2', priority => 5)")
    large = value(db, "select penstock.enqueue('order-events', to_jsonb(repeat('x', 5000)))")
    raw = value(db, "select penstock.enqueue('order-events', payload_bytes => '\\x00ff')")
    first, second = (
        value(db, "select penstock.enqueue('order-events', $1, group_key => 'g')", n)
        for n in ("3", "4")
    )
    claimed = {row[0]: row[1] for row in rows(db, CLAIM)}
    assert claimed == {urgent: 2, plain: 1, large: "x" * 5000, raw: "AP8=", first: 3}
    assert value(db, "select count(*) from penstock.messages where worker = 'worker-1'") == 5
    assert message(db, large)["payload"] == "x" * 5000
    assert message(db, raw)["payload"] == "AP8="
    for number in claimed:
        assert count(db, ACK, number, "worker-1") == 1
    assert [row[0] for row in rows(db, CLAIM)] == [second]


def test_a_lease_by_token_is_not_the_contracts_to_settle(db: Connection) -> None:
    number = enqueue(db, 1)
    [(token,)] = rows(db, "select token from penstock.claim('order-events', 1, 60, 'worker-1')")
    assert message(db, number)["claimed_by"] is None
    assert count(db, ACK, number, "worker-1") == 0
    rows(db, "select penstock.ack($1, $2)", number, token)


def test_limits_and_pause_hold_for_the_contract(db: Connection) -> None:
    for n in range(5):
        enqueue(db, n)
    rows(db, "select penstock.pause('order-events')")
    assert rows(db, CLAIM) == []
    rows(db, "select penstock.resume('order-events')")
    rows(db, """select penstock.set_queue('order-events', '{"max_in_flight": 2}')""")
    assert len(rows(db, CLAIM)) == 2
    assert rows(db, CLAIM) == []


def test_a_waiting_message_can_be_put_off_hastened_and_deleted(db: Connection) -> None:
    ready, delayed, gone = enqueue(db, 1), enqueue(db, 2, delay=600), enqueue(db, 3)
    set_time = (
        "update mdb_queue.messages set visible_at = now() + $2 * interval '1 s' where id = $1"
    )
    assert count(db, set_time, ready, 600) == 1
    assert count(db, set_time, delayed, 0) == 1
    assert count(db, "delete from mdb_queue.messages where id = $1", gone) == 1
    assert [row[0] for row in rows(db, CLAIM)] == [delayed]
    assert value(db, "select state from penstock.history where id = $1", gone) == "cancelled"
    assert count(db, "delete from mdb_queue.messages where queue_name = $1", QUEUE) == 2
    assert value(db, "select count(*) from penstock.messages") == 0


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("update mdb_queue.messages set payload = '2'", "payload"),
        ("update mdb_queue.messages set queue_name = 'x'", "queue_name"),
        ("update mdb_queue.messages set attempt_count = 7", "attempt_count is '7'; allowed: 0"),
        ("update mdb_queue.messages set visible_at = null", "visible_at is null"),
        ("update mdb_queue.messages set visible_at = 'infinity'", "visible_at is 'infinity'"),
        ("insert into mdb_queue.messages (queue_name) values ('order-events')", "payload"),
        ("insert into mdb_queue.messages (id, queue_name, payload) values (1, 'x', '1')", "id"),
        (
            "insert into mdb_queue.messages (queue_name, payload, max_attempts)"
            " values ('order-events', '1', 101)",
            "max_attempts is '101'",
        ),
        (
            "insert into mdb_queue.messages (queue_name, payload)"
            " values ('order-events', to_jsonb(repeat('x', 300000)))",
            "300002 bytes",
        ),
        ("insert into mdb_queue.queues (name) values ('No Such')", "not a valid queue name"),
        ("insert into mdb_queue.queues (name) values ('order-events')", "already exists"),
        ("update mdb_queue.queues set max_attempts = 0", "max_attempts"),
        ("update mdb_queue.queues set name = 'other'", "name"),
        ("delete from mdb_queue.queues", "is not empty: it has 1 message"),
    ],
)
def test_what_the_contract_does_not_know_is_refused(
    db: Connection, statement: str, complaint: str
) -> None:
    number = enqueue(db, 1)
    before = message(db, number)
    with pytest.raises(psycopg.Error, match=complaint):
        rows(db, statement)
    assert message(db, number) == before
    assert rows(db, "select name from mdb_queue.queues") == [(QUEUE,)]


def test_settings_of_a_queue_change_by_update(db: Connection) -> None:
    change = "update mdb_queue.queues set visibility_timeout_seconds = 90, dlq_enabled = false"
    assert count(db, change) == 1
    assert rows(db, "select lease_seconds, dlq_enabled from penstock.queues") == [(90, False)]
