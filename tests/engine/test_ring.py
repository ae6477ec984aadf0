"""Segments are used in turn and truncated: space comes back, and what outlives them is kept."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from tests.held import RUN_OUT

BODY = '"' + "x" * 3000 + '"'  # large enough to be kept apart from its message


@pytest.fixture
def busy_ring(engine: Any) -> Any:
    engine.create("work")
    engine.create("kept")
    return engine


def slot_of(engine: Any, table: str, message: int) -> str:
    """The segment that has the message in this table."""
    for slot in "012345678":
        if engine.value(f"select count(*) from penstock.{table}_{slot} where id = %s", message):
            return slot
    return ""


class Watch:
    """Watches the ring, and on request hurries it: small segments, truncated when drained."""

    SMALLER = """select setval('penstock.ring_until', least(u.last_value, p.last_value + 2000))
                 from penstock.ring_until u, penstock.position p"""

    def __init__(self, engine: Any, hurry: bool) -> None:
        self.engine, self.hurry = engine, hurry
        self.rings: list[tuple[str, str]] = []
        self.largest = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            if self.hurry:
                self.engine.value(self.SMALLER)
                self.engine.pass_a_second()
            if (ring := self.engine.ring()) != (self.rings or [None])[-1]:
                self.rings.append(ring)
                self.largest = max(self.largest, self.engine.bytes())

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def turns(self) -> int:
        current = [live[-1] for _, live in self.rings]
        return sum(a != b for a, b in itertools.pairwise(current))


def check_bounded(watch: Watch, running: Any, wait_for: Any, messages: int) -> None:
    wait_for(lambda: watch.turns > 8, "once around")
    early = watch.largest
    running.passed(messages)
    print(f"{messages} messages, {watch.turns} segments, {early} then {watch.largest} bytes")
    # Each message was two rows of 150 bytes or more, without their indexes.
    assert watch.largest < min(3 * early, 300 * messages)


def test_space_is_bounded_by_the_ring_whoever_pins_the_horizon(
    engine: Any, caller: Any, traffic: Any, wait_for: Any, pinned: str
) -> None:
    engine.create("work")
    with Watch(caller(), hurry=True) as watch:
        check_bounded(watch, traffic("work", backlog=500, batch=100), wait_for, 60_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_space_is_bounded_by_the_ring_in_the_long_run(
    engine: Any, caller: Any, traffic: Any, wait_for: Any, pinned: str
) -> None:
    engine.create("work")
    with Watch(caller(), hurry=False) as watch:
        check_bounded(watch, traffic("work", backlog=500, batch=100), wait_for, 600_000)


def test_a_segment_is_freed_once_it_is_drained(busy_ring: Any) -> None:
    first = busy_ring.ring()[1]
    busy_ring.drain("work", set(busy_ring.enqueue_many("work", 100)))
    busy_ring.rotate()
    assert first not in busy_ring.tend()
    assert busy_ring.value(f"select pg_relation_size('penstock.lane_{first}')") == 0


def test_a_burst_gives_its_space_back_though_few_messages_follow(
    engine: Any, wait_for: Any
) -> None:
    engine.create("work")
    payload = '{"k": "' + "x" * 900 + '"}'
    many = "select count(*) from penstock.enqueue_many('work', array_fill(%s::jsonb, array[4000]))"
    for _ in range(10):
        engine.value(many, payload)
        # All of it in one segment, as if no other were free.
        engine.value("select setval('penstock.ring_until', %s)", 2**40)
    assert engine.bytes() > 2**26
    while leases := engine.claim("work", 5000):
        engine.ack(leases)

    def small_again() -> bool:
        engine.value("select setval('penstock.tick_at', 0) + setval('penstock.ring_check_at', 0)")
        engine.value("select setval('penstock.ring_turned_at', 0)")  # as if it were long ago
        engine.pass_a_second()
        engine.claim("work")
        return bool(engine.bytes() < 2**22)

    wait_for(small_again, "the space of the burst is given back")


def test_floors_rise_though_another_queue_keeps_an_older_segment_in_use(
    engine: Any, wait_for: Any
) -> None:
    engine.create("backlog")
    engine.create("work")
    engine.enqueue("backlog")
    engine.rotate()

    def risen() -> bool:
        last = engine.enqueue("work")
        engine.drain("work", {last})
        begun = "select pg_sequence_last_value('penstock.ring_until') - 32768"
        return bool(engine.floor("work") > engine.value(begun) + 1)

    wait_for(risen, "the floor is behind the first message of the segment")
    assert len(engine.ring()[1]) > 1, "the older segment is in use"


def test_a_slow_enqueuer_keeps_its_segment(busy_ring: Any, other: Any) -> None:
    late = other.enqueue("kept", BODY)
    slot = busy_ring.ring()[1]
    for _ in range(10):  # once around, and past it
        busy_ring.rotate()
        assert slot in busy_ring.tend()
    other.connection.commit()
    assert busy_ring.drain("kept", {late}) == [late]
    assert slot not in busy_ring.tend()


def test_a_segment_with_an_open_enqueue_is_not_closed(busy_ring: Any, other: Any) -> None:
    late = other.enqueue("kept", BODY)
    slot = busy_ring.ring()[1]
    busy_ring.rotate()
    busy_ring.tend()
    assert slot in busy_ring.ring()[1]  # claims look only there
    other.connection.commit()
    assert [lease[0] for lease in busy_ring.claim("kept")] == [late]
    assert busy_ring.value("select penstock.rescans_that_found()") == 0


def test_a_block_does_not_close_the_segment_of_messages_that_it_has_claimed(
    busy_ring: Any, other: Any
) -> None:
    """Claims do not look into a closed segment, and the message comes back."""
    message = busy_ring.enqueue("work")
    busy_ring.rotate()
    segment = slot_of(busy_ring, "ready", message)
    assert [lease[0] for lease in other.claim("work")] == [message]
    other.value("select setval('penstock.tick_at', 0) + setval('penstock.ring_check_at', 0)")
    assert other.claim("work") == []
    assert segment in busy_ring.ring()[1]
    other.connection.rollback()
    assert [lease[0] for lease in busy_ring.claim("work")] == [message]
    assert busy_ring.value("select penstock.rescans_that_found()") == 0


def test_a_segment_with_messages_is_not_truncated(busy_ring: Any) -> None:
    kept = busy_ring.enqueue("kept", BODY)
    slot = busy_ring.ring()[1]
    busy_ring.rotate()
    # A late commit may fill a segment after it was found drained.
    assert busy_ring.value("select penstock._free_segment(%s)", slot) is False
    assert busy_ring.drain("kept", {kept}) == [kept]


def test_a_reader_only_delays_that_a_segment_is_freed(busy_ring: Any, other: Any) -> None:
    slot = busy_ring.ring()[1]
    other.value(f"select count(*) from penstock.ready_{slot}")
    for _ in range(10):
        busy_ring.rotate()
        assert slot in busy_ring.tend()
    other.connection.rollback()
    assert slot not in busy_ring.tend()


@pytest.fixture
def outlived(busy_ring: Any, wait_for: Any) -> dict[int, int]:
    """Long leases, one in each of seven segments: the oldest end up in the overflow segment."""
    leases = {}
    for n in range(7):
        busy_ring.enqueue("kept", BODY if n % 2 else "1")
        leases |= dict(busy_ring.claim("kept", 1, 600))
        busy_ring.rotate()
    oldest = list(leases)[:2]

    def moved() -> bool:
        busy_ring.tend()
        return all(slot_of(busy_ring, "leased", message) == "0" for message in oldest)

    wait_for(moved, "the oldest leases in the overflow segment")
    assert slot_of(busy_ring, "body", oldest[1]) == "0"
    return leases


def test_a_lease_that_outlives_its_segment_is_settled_by_its_token(
    busy_ring: Any, outlived: dict[int, int]
) -> None:
    (plain, plain_token), (large, large_token) = list(outlived.items())[:2]
    until = busy_ring.value("select penstock.extend(%s, %s, 1200)", plain, plain_token)
    assert until == busy_ring.value(
        "select lease_until from penstock.messages where id = %s", plain
    )
    busy_ring.value("select penstock.ack(%s, %s)", plain, plain_token)
    assert busy_ring.value(
        "select payload = %s::jsonb from penstock.messages where id = %s", BODY, large
    )
    state = busy_ring.value("select penstock.nack(%s, %s, 'again', '0')", large, large_token)
    assert state == "ready"
    again = busy_ring.connection.execute("select * from penstock.claim('kept', 10)").fetchall()
    assert [(row[0], row[3]) for row in again] == [(large, BODY.strip('"'))]
    assert busy_ring.ack([again[0][:2]]) == {large}
    assert slot_of(busy_ring, "body", large) == ""


def test_leases_in_the_overflow_segment_are_settled_together_with_others(
    busy_ring: Any, outlived: dict[int, int]
) -> None:
    assert busy_ring.ack(list(outlived.items())) == set(outlived)
    assert busy_ring.value("select count(*) from penstock.messages") == 0
    assert len(busy_ring.tend()) == 1, "everything is free again, the overflow segment too"


def test_a_lease_that_expires_in_the_overflow_segment_is_delivered_again(
    busy_ring: Any, outlived: dict[int, int]
) -> None:
    busy_ring.connection.execute(RUN_OUT)
    came = busy_ring.drain("kept", set(outlived))
    assert sorted(came) == sorted(outlived), "each of them once"


def test_a_paused_queue_keeps_its_messages_while_others_turn_the_ring(
    busy_ring: Any, wait_for: Any
) -> None:
    busy_ring.value("select penstock.pause('kept')")
    kept = []
    for n in range(20):
        kept.append(busy_ring.enqueue("kept", BODY if n % 2 else "1"))
        busy_ring.rotate()
        wait_for(lambda: len(busy_ring.tend()) < 8, "room")
    assert slot_of(busy_ring, "ready", kept[0]) == "0"
    assert busy_ring.value("select ready from penstock.stats('kept')") == 20
    busy_ring.value("select penstock.resume('kept')")
    rows = busy_ring.connection.execute("select * from penstock.claim('kept', 100)").fetchall()
    assert [row[0] for row in rows] == kept, "in order, though they lay in several segments"
    assert [row[3] for row in rows] == [BODY.strip('"') if n % 2 else 1 for n in range(20)]
    assert busy_ring.ack([row[:2] for row in rows]) == set(kept)


def test_with_no_segment_free_the_current_one_grows(busy_ring: Any, caller: Any) -> None:
    holders = []
    for _ in range(8):
        holders.append(caller(autocommit=False))
        holders[-1].enqueue("kept")
        busy_ring.value("select setval('penstock.ring_until', 0)")
        busy_ring.drain("work", {busy_ring.enqueue("work")})
    assert sorted("".join(busy_ring.ring()).replace("0", "")) == list("12345678")
    sent = set(busy_ring.enqueue_many("work", 5000))
    busy_ring.drain("work", sent)
    for holder in holders:
        holder.connection.commit()
    assert len(busy_ring.drain("kept", set())) <= 8


def test_many_are_acked_at_once_whatever_they_have(busy_ring: Any) -> None:
    sent = {busy_ring.enqueue("kept", BODY), busy_ring.enqueue("kept", key="k")}
    sent |= {busy_ring.enqueue("kept", group_key="g"), busy_ring.enqueue("kept")}
    after = busy_ring.enqueue("kept", group_key="g")
    assert busy_ring.ack(busy_ring.claim("kept", 10)) == sent
    assert busy_ring.drain("kept", {after}) == [after]
    for table in ("messages", "message_key", "message_group"):
        assert busy_ring.value(f"select count(*) from penstock.{table}") == 0
