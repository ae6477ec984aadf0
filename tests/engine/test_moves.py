"""Messages move to other queues and priorities, purges are undone, acts take whole filters."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from penstock import Client
from penstock.errors import PayloadTooLargeError


@pytest.fixture
def db(dsn: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as made:
        yield made


@pytest.fixture
def client(dsn: str) -> Any:
    with Client(dsn) as made:
        made.create_queue("a")
        made.create_queue("b")
        yield made


def value(db: psycopg.Connection[Any], statement: str, *params: Any) -> Any:
    row = db.execute(statement, params).fetchone()
    assert row is not None
    return row[0]


def claimed(client: Client, queue: str) -> list[tuple[int, Any]]:
    return [(lease.id, lease.payload) for lease in client.claim(queue, 100)]


@pytest.mark.parametrize("block", [False, True])
def test_waiting_messages_are_moved_with_their_ids(
    db: psycopg.Connection[Any], client: Client, block: bool
) -> None:
    large = "x" * 5000
    ids = [client.enqueue("a", n) for n in (1, 2)]
    ids.append(client.enqueue("a", large, priority=3, ttl=3600))
    later = client.enqueue("a", 4, delay=3600)
    grouped = client.enqueue("a", 5, group="g")
    leased = client.enqueue("a", 6, priority=9)
    client.claim("a", 1)
    all_ids = [*ids, later, grouped, leased, 999_999]
    if block:
        with db.transaction():
            assert value(db, "select penstock.move(%s, 'b')", all_ids) == 5
    else:
        assert value(db, "select penstock.move(%s, 'b')", all_ids) == 5
    assert value(db, "select penstock.move(%s, 'b')", all_ids) == 0
    assert dict(claimed(client, "b")) == {ids[0]: 1, ids[1]: 2, ids[2]: large, grouped: 5}
    stats = client.stats("b")
    assert (stats.scheduled, client.stats("a").leased, client.stats("a").ready) == (1, 1, 0)


def test_a_dead_letter_is_moved_and_starts_again(
    db: psycopg.Connection[Any], client: Client
) -> None:
    id = client.enqueue("a", 1)
    client.reject(client.claim("a", 1)[0], "broken")
    assert value(db, "select penstock.move(%s, 'b')", [id]) == 1
    [lease] = client.claim("b", 1)
    assert (lease.id, lease.attempt) == (id, 1)
    assert client.stats("a").dead == 0


def test_a_key_goes_with_its_message(db: psycopg.Connection[Any], client: Client) -> None:
    moved = client.enqueue("a", "old", key="k")
    newer = client.enqueue("b", "new", key="k")
    assert value(db, "select penstock.move(%s, 'b')", [moved]) == 1
    assert claimed(client, "b") == [(newer, "new")]
    assert client.message(moved).state == "superseded"
    assert client.enqueue("a", "free", key="k") not in (moved, newer)


def test_a_move_into_a_full_queue_changes_nothing(
    db: psycopg.Connection[Any], client: Client
) -> None:
    client.set_queue("b", max_depth=1)
    ids = [client.enqueue("a", n) for n in range(2)]
    with pytest.raises(psycopg.Error, match="is full"):
        db.execute("select penstock.move(%s, 'b')", [ids])
    assert len(claimed(client, "a")) == 2


@pytest.mark.parametrize("large", ["x" * 300, "x" * 50_000, b"x" * 300, b"x" * 50_000])
def test_a_move_of_a_payload_that_is_too_large_for_the_queue_changes_nothing(
    db: psycopg.Connection[Any], client: Client, large: str | bytes
) -> None:
    client.set_queue("b", max_payload_bytes=299)
    ids = [client.enqueue("a", n) for n in range(2)]
    ids.insert(1, client.enqueue("a", large))
    limits = {"size": len(large) + 2 * isinstance(large, str), "limit": 299}
    with pytest.raises(PayloadTooLargeError) as refused:
        client.move(ids, "b")
    assert refused.value.fields == {"queue": "b", **limits}
    with pytest.raises(PayloadTooLargeError) as enqueued:
        client.enqueue("b", large)
    assert str(enqueued.value) == str(refused.value), "the same error"
    assert sorted(id for id, _ in claimed(client, "a")) == sorted(ids)


@pytest.mark.parametrize("act", ["move", "replay"])
def test_an_act_skips_messages_that_are_too_large_for_the_queue(
    db: psycopg.Connection[Any], client: Client, act: str
) -> None:
    client.set_queue("b", max_payload_bytes=299)
    large = "x" * 300
    for payload in (1, large, 2, large, 3):
        client.enqueue("a", payload)
    if act == "replay":
        client.ack_many(client.claim("a", 5))
    made = request(db, act, "ready" if act == "move" else "done", queues=["a"], to_queue="b")
    finish(db, made)
    assert act_row(db, made) == ("done", 5, 3)
    assert sorted(payload for _, payload in claimed(client, "b")) == [1, 2, 3]
    left = [payload for _, payload in claimed(client, "a")]
    assert left == ([large, large] if act == "move" else [])


def test_priorities_are_changed(db: psycopg.Connection[Any], client: Client) -> None:
    client.set_queue("a", max_depth=3)
    first, second = (client.enqueue("a", n) for n in range(2))
    later = client.enqueue("a", 2, delay=3600)
    assert value(db, "select penstock.set_priority(%s, 5)", [second, later]) == 2
    assert value(db, "select penstock.set_priority(%s, 5)", [second, later]) == 0
    assert [id for id, _ in claimed(client, "a")] == [second, first]
    assert client.message(later).priority == 5


@pytest.mark.parametrize("keep", [0, 7])
def test_a_purge_is_undone_once(db: psycopg.Connection[Any], client: Client, keep: int) -> None:
    client.set_queue("a", keep_history=keep)
    large = "x" * 5000
    for n, payload in enumerate((1, large)):
        client.enqueue("a", payload, headers={"n": n}, priority=n, key=f"k{n}")
    client.enqueue("a", 3, delay=3600)
    client.enqueue("a", 4, group="g")
    assert client.purge("a") == 4
    assert claimed(client, "a") == []
    client.enqueue("a", "newer", key="k0")
    assert value(db, "select count from penstock.purges where queue = 'a'") == 4
    assert value(db, "select penstock.undo_purge('a')") == 3
    assert sorted(str(payload) for _, payload in claimed(client, "a")) == ["4", "newer", large]
    assert client.stats("a").scheduled == 1
    with pytest.raises(psycopg.Error, match="no purge to undo"):
        db.execute("select penstock.undo_purge('a')")


def test_purged_dead_letters_come_back_as_dead_letters(
    db: psycopg.Connection[Any], client: Client
) -> None:
    client.enqueue("a", 1)
    client.reject(client.claim("a", 1)[0], "broken")
    assert client.purge("a.dlq") == 1
    assert value(db, "select penstock.undo_purge('a.dlq')") == 1
    assert client.stats("a").dead == 1
    assert client.redrive("a") == 1


def test_what_was_purged_is_forgotten_after_an_hour(
    db: psycopg.Connection[Any], client: Client
) -> None:
    client.enqueue("a", 1)
    client.purge("a")
    db.execute("update penstock.purge set purged_at = now() - interval '2 hours'")
    with pytest.raises(psycopg.Error, match="no purge to undo"):
        db.execute("select penstock.undo_purge('a')")
    client.maintain()
    assert value(db, "select count(*) from penstock.purged") == 0
    assert value(db, "select count(*) from penstock.purge") == 0


def finish(db: psycopg.Connection[Any], act: Any) -> int:
    """Carries an act out; the number of its steps."""
    steps = 0
    while True:
        steps += 1
        assert steps < 100
        if value(db, "select status from penstock.step_bulk_act(%s)", act) != "running":
            return steps


def act_row(db: psycopg.Connection[Any], act: Any) -> tuple[Any, ...]:
    row = db.execute(
        "select status, matched, changed from penstock.bulk_acts where id = %s", [act]
    ).fetchone()
    assert row is not None
    return row


def request(db: psycopg.Connection[Any], act: str, state: str, **more: Any) -> Any:
    given = "".join(f", {name} => %({name})s" for name in more)
    row = db.execute(
        f"select penstock.request_bulk_act(%(act)s, %(state)s, in_background => false{given})",
        {"act": act, "state": state, **more},
    ).fetchone()
    assert row is not None
    return row[0]


def test_an_act_knows_how_many_match_up_to_a_bound(
    db: psycopg.Connection[Any], client: Client
) -> None:
    client.enqueue_many("a", range(10_001))
    client.enqueue_many("b", range(3))
    client.enqueue("b", 3, key="k")

    def expected(act: str, **more: Any) -> int | None:
        query = "select expected from penstock.bulk_acts where id = %s"
        count: int | None = value(db, query, request(db, act, "ready", **more))
        return count

    assert expected("cancel", queues=["b"]) == 4
    assert expected("cancel", queues=["b"], key="k") == 1
    assert expected("set_priority", queues=["b"], priority=0) == 0
    # There are too many to find each of them. Statistics know no filters.
    assert expected("cancel", queues=["a"]) == 10_001
    assert expected("cancel") == 10_005
    assert expected("cancel", max_count=20) == 20
    assert expected("cancel", queues=["a"], error="no") is None
    assert expected("cancel", queues=["a"], error="no", max_count=20) is None


def test_an_act_takes_all_that_match_in_steps_and_nothing_that_comes_later(
    db: psycopg.Connection[Any], client: Client
) -> None:
    client.enqueue_many("a", range(1200))
    client.enqueue_many("b", range(3))
    act = request(db, "cancel", "ready", queues=["a"])
    client.enqueue("a", "later")
    assert finish(db, act) >= 3
    assert act_row(db, act) == ("done", 1200, 1200)
    assert claimed(client, "a")[0][1] == "later"
    assert client.stats("b").ready == 3


@pytest.mark.parametrize(
    ("act", "more"), [("move", {"to_queue": "b"}), ("set_priority", {"priority": 4})]
)
def test_messages_that_the_act_puts_elsewhere_are_not_taken_twice(
    db: psycopg.Connection[Any], client: Client, act: str, more: Any
) -> None:
    client.enqueue_many("a", range(700))
    made = request(db, act, "ready", **more)
    finish(db, made)
    assert act_row(db, made) == ("done", 700, 700)
    assert client.stats("b" if act == "move" else "a").ready == 700


def test_redrive_and_replay_take_filters(db: psycopg.Connection[Any], client: Client) -> None:
    client.enqueue_many("a", range(4))
    for n, lease in enumerate(client.claim("a", 4)):
        client.reject(lease, "timeout" if n % 2 else "broken")
    made = request(db, "redrive", "dead", error="timeout")
    finish(db, made)
    assert act_row(db, made) == ("done", 2, 2)
    for lease in client.claim("a", 10):
        client.ack(lease)
    made = request(db, "replay", "done", queues=["a"], to_queue="b")
    finish(db, made)
    assert act_row(db, made) == ("done", 2, 2)
    assert client.stats("b").ready == 2


def test_a_dry_run_counts_and_changes_nothing(db: psycopg.Connection[Any], client: Client) -> None:
    client.enqueue_many("a", range(20))
    made = request(db, "cancel", "ready", dry_run=True)
    finish(db, made)
    assert act_row(db, made) == ("done", 20, 0)
    assert client.stats("a").ready == 20


def test_a_rate_and_a_limit_bound_each_step_and_an_act_can_be_stopped(
    db: psycopg.Connection[Any], client: Client
) -> None:
    client.enqueue_many("a", range(20))
    made = request(db, "cancel", "ready", per_second=4, max_count=10)
    row = db.execute("select status, pause_seconds from penstock.step_bulk_act(%s)", [made])
    assert row.fetchone() == ("running", 1.0)
    assert act_row(db, made) == ("running", 4, 4)
    finish(db, made)
    assert act_row(db, made) == ("done", 10, 10)
    second = request(db, "cancel", "ready", per_second=4)
    db.execute("select penstock.step_bulk_act(%s)", [second])
    assert value(db, "select penstock.stop_bulk_act(%s)", second)
    finish(db, second)
    assert act_row(db, second) == ("stopped", 4, 4)
    assert client.stats("a").ready == 6
    assert not value(db, "select penstock.stop_bulk_act(%s)", second)


def test_an_act_on_all_queues_leaves_internal_ones_alone(
    db: psycopg.Connection[Any], client: Client
) -> None:
    client.create_queue("penstock.internal")
    client.enqueue("penstock.internal", 1)
    client.enqueue("a", 1)
    made = request(db, "cancel", "ready")
    finish(db, made)
    assert act_row(db, made) == ("done", 1, 1)
    assert client.stats("penstock.internal").ready == 1


@pytest.mark.parametrize(
    ("act", "state", "more", "field"),
    [
        ("erase", "ready", {}, "act"),
        ("redrive", "ready", {}, "state"),
        ("move", "ready", {}, "to_queue"),
        ("set_priority", "ready", {"priority": 10}, "priority"),
        ("cancel", "ready", {"per_second": 0}, "per_second"),
        ("cancel", "ready", {"queues": ["nowhere"]}, "nowhere"),
    ],
)
def test_a_wrong_request_is_refused(
    db: psycopg.Connection[Any], client: Client, act: str, state: str, more: Any, field: str
) -> None:
    with pytest.raises(psycopg.Error, match=field):
        request(db, act, state, **more)
