"""What a caller of the SQL functions sees, from several sessions at once."""

import threading
from collections import Counter
from time import monotonic
from typing import Any

import psycopg
import pytest
from tests.held import RUN_OUT

CLAIM = "select id, token, payload from penstock.claim(%s, %s)"


@pytest.fixture
def db(connect):
    db = connect()
    db.execute("select penstock.create_queue('work')")
    return db


def enqueue(db, n: int = 1, queue: str = "work", **options: Any) -> list[int]:
    named = "".join(f", {name} => %({name})s" for name in options)
    call = f"select penstock.enqueue(%(queue)s, to_jsonb(%(n)s){named})"
    rows = [db.execute(call, {"queue": queue, "n": i, **options}).fetchone() for i in range(n)]
    return [row[0] for row in rows]


def claim(db, n: int = 1, queue: str = "work"):
    return db.execute(CLAIM, [queue, n]).fetchall()


def run_out(db) -> None:
    """Lets every lease expire, as if the time had passed."""
    db.execute(RUN_OUT)


def test_a_number_that_a_crash_forgot_makes_another_token(db):
    """A claim may be lost with the number it took, while a consumer has its lease."""
    enqueue(db)
    tokens = []
    for _ in range(4):  # one in 4,096 is the same by chance
        db.execute("select setval('penstock.lease_number', 7)")
        ((id, token, _),) = claim(db)
        tokens.append(token)
        db.execute("select penstock.snooze(%s, %s, '0 s')", [id, token])
    assert len(set(tokens)) > 1
    assert len({token // 4096 // 32 for token in tokens}) == 1


def test_only_the_current_token_settles(db):
    enqueue(db)
    ((id, old, _),) = claim(db)
    run_out(db)
    ((again, token, _),) = claim(db)
    assert again == id
    assert token != old
    for verb in ("ack", "nack", "reject", "snooze", "extend"):
        with pytest.raises(psycopg.DatabaseError) as lost:
            db.execute(f"select penstock.{verb}(%s, %s)", [id, old])
        assert lost.value.sqlstate == "PS007"
    assert db.execute("select * from penstock.ack_many(%s, %s)", [[id], [old]]).fetchall() == []
    db.execute("select penstock.ack(%s, %s)", [id, token])


@pytest.mark.parametrize("token", [0, -1, 1, 9, 15, 31, 2**63 - 1])
def test_a_token_that_never_was_settles_nothing(db, token):
    enqueue(db)
    ((id, _, _),) = claim(db)
    with pytest.raises(psycopg.DatabaseError) as lost:
        db.execute("select penstock.ack(%s, %s)", [id, token])
    assert lost.value.sqlstate == "PS007"
    assert db.execute("select state from penstock.messages").fetchall() == [("leased",)]


@pytest.mark.parametrize("at_once", [1, 2], ids=["moved", "held"])
@pytest.mark.parametrize("keep_history", [0, 7])
def test_a_lease_that_ran_out_settles_nothing_though_nobody_claimed_since(
    db, keep_history, at_once
):
    db.execute(f"select penstock.set_queue('work', '{{\"keep_history\": {keep_history}}}')")
    enqueue(db, 2)
    leases = [each for _ in range(2 // at_once) for each in claim(db, at_once)]
    ids, tokens = [id for id, *_ in leases], [token for _, token, _ in leases]
    run_out(db)
    with pytest.raises(psycopg.DatabaseError) as lost:
        db.execute("select penstock.ack(%s, %s)", [ids[0], tokens[0]])
    assert lost.value.sqlstate == "PS007"
    for some in (slice(1), slice(2)):
        arrays = [ids[some], tokens[some]]
        assert db.execute("select penstock.ack_many(%s, %s)", arrays).fetchall() == []


@pytest.mark.parametrize("held_before", [False, True])
@pytest.mark.parametrize("alone", ["off", "on"])
def test_a_claim_does_not_wait_for_another_that_has_not_committed(db, connect, alone, held_before):
    if held_before:  # then claims that are not alone pick their messages in a separate step
        enqueue(db, 20)
        assert len(claim(db, 20)) == 20
    first, second = enqueue(db, 2)
    slow, quick = connect(autocommit=False), connect()
    assert [id for id, *_ in claim(slow)] == [first]
    quick.execute("set lock_timeout = '30s'")
    quick.execute(f"set penstock.alone = {alone}")
    assert [id for id, *_ in claim(quick)] == [second]
    assert claim(quick) == []
    slow.rollback()
    assert [id for id, *_ in claim(quick)] == [first]


def test_many_claimers_share_a_queue_without_doubles(db, connect):
    ids = enqueue(db, 400)
    taken: list[int] = []

    def work(session) -> None:
        while rows := claim(session, 3):
            taken.extend(id for id, *_ in rows)

    threads = [threading.Thread(target=work, args=[connect()]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A claim skips what others hold, so one that came back empty may have left a message behind.
    work(db)
    assert sorted(taken) == ids


def test_a_group_is_served_in_order_and_one_at_a_time(db):
    first, second, third = enqueue(db, 3, group_key="g")
    ((id, token, _),) = claim(db, 10)
    assert id == first
    assert claim(db, 10) == []
    nack = "select penstock.nack(%s, %s, 'no', '0')"
    assert db.execute(nack, [id, token]).fetchone() == ("ready",)
    for expected in (first, second, third):
        ((id, token, _),) = claim(db, 10)
        assert id == expected
        db.execute("select penstock.ack(%s, %s)", [id, token])
    assert claim(db, 10) == []
    assert db.execute("select count(*) from penstock.message_group").fetchone() == (0,)


def test_a_group_whose_enqueuer_is_slow_goes_on_after_its_commit(db, connect):
    enqueue(db, group_key="g")
    ((id, token, _),) = claim(db)
    slow = connect(autocommit=False)
    (late,) = enqueue(slow, group_key="g")
    db.execute("select penstock.ack(%s, %s)", [id, token])
    assert claim(db) == []
    slow.commit()
    db.execute("update penstock.scheduled set due_at = now()")
    assert [id for id, *_ in claim(db)] == [late]


def test_max_in_flight_holds_among_many_claimers(db, connect):
    db.execute("select penstock.set_queue('work', '{\"max_in_flight\": 5}')")
    enqueue(db, 40)
    threads = [threading.Thread(target=claim, args=[connect(), 3]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claim(db, 10)
    leased = "select count(*) from penstock.messages where state = 'leased'"
    assert db.execute(leased).fetchone() == (5,)
    run_out(db)
    assert len(claim(db, 10)) == 5


def test_max_depth_holds_among_many_producers(db, connect):
    db.execute("select penstock.set_queue('work', '{\"max_depth\": 10}')")
    refused: list[str | None] = []

    def produce(session) -> None:
        for _ in range(5):
            try:
                enqueue(session)
            except psycopg.DatabaseError as error:
                refused.append(error.sqlstate)

    threads = [threading.Thread(target=produce, args=[connect()]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["PS008"] * 10
    ((id, token, _),) = claim(db)
    db.execute("select penstock.ack(%s, %s)", [id, token])
    enqueue(db)
    with pytest.raises(psycopg.DatabaseError) as full:
        enqueue(db)
    assert full.value.sqlstate == "PS008"


def test_a_throughput_limit_is_spent_on_what_was_delivered_only(db):
    db.execute("select penstock.set_queue('work', '{\"throughput_limit\": 10}')")
    assert claim(db, 100) == []
    enqueue(db, 30)
    # The bucket holds a second's worth, and fills at ten a second while we look.
    begun = monotonic()
    assert 10 <= len(claim(db, 100)) <= 15
    assert len(claim(db, 100)) <= 1 + 10 * (monotonic() - begun)


def test_repeatable_read_callers_with_one_key_conflict_instead_of_missing_each_other(db, connect):
    one, two = connect(autocommit=False), connect(autocommit=False)
    for session in (one, two):
        session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        session.execute("select 1 from penstock.queues")
    enqueue(one, key="k")
    one.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        enqueue(two, key="k")
    assert db.execute("select count(*) from penstock.messages").fetchone() == (1,)


def test_a_large_payload_is_written_once_and_comes_back_whole(db):
    text = "x" * 100_000
    call = "select penstock.enqueue('work', to_jsonb(%s::text))"
    (id,) = db.execute(call, [text]).fetchone()
    for _ in range(2):
        ((claimed, token, payload),) = claim(db)
        assert (claimed, payload) == (id, text)
        db.execute("select penstock.nack(%s, %s, 'again', '0')", [id, token])
    bodies = " + ".join(f"(select count(*) from penstock.body_{slot})" for slot in range(9))
    assert db.execute(f"select {bodies}").fetchone() == (1,)
    db.execute("select penstock.cancel(%s)", [id])
    assert db.execute(f"select {bodies}").fetchone() == (0,)
    history = "select payload, payload_bytes_count from penstock.history"
    assert db.execute(history).fetchone() == (text, 100_002)


def test_ack_many_ends_messages_with_keys_groups_and_bodies_as_ack_does(db):
    enqueue(db, key="k")
    first, second = enqueue(db, 2, group_key="g")
    db.execute("select penstock.enqueue('work', to_jsonb(repeat('x', 5000)))")
    leases = claim(db, 10)
    ids, tokens = [id for id, *_ in leases], [token for _, token, _ in leases]
    assert first in ids
    assert second not in ids
    settled = db.execute("select penstock.ack_many(%s, %s)", [ids, tokens]).fetchall()
    assert sorted(id for (id,) in settled) == sorted(ids)
    done = db.execute("select id from penstock.history where state = 'done' order by id").fetchall()
    assert [id for (id,) in done] == sorted(ids)
    assert db.execute("select count(*) from penstock.message_key").fetchone() == (0,)
    assert [id for id, *_ in claim(db)] == [second]


@pytest.mark.parametrize("count", [1, 2], ids=["moved", "held"])
def test_what_is_replaced_while_it_is_claimed_comes_once(db, connect, count: int):
    """A claim locks the newest version of a message, but its statement may not see that yet."""
    stop = threading.Event()

    def replace() -> None:
        with connect() as enqueuer:
            enqueuer.execute("set synchronous_commit = off")
            while not stop.is_set():
                enqueuer.execute("select penstock.enqueue('work', '1', key => 'k')")

    db.execute("set synchronous_commit = off")
    enqueuers = [threading.Thread(target=replace) for _ in range(2)]
    came: Counter[int] = Counter()
    try:
        for enqueuer in enqueuers:
            enqueuer.start()
        while came.total() < 400:
            for id, token, _ in claim(db, count):
                came[id] += 1
                db.execute("select penstock.ack(%s, %s)", [id, token])
    finally:
        stop.set()
        for enqueuer in enqueuers:
            enqueuer.join()
    assert set(came.values()) == {1}
