"""Time that stands still and is moved: everything that depends on it follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Client
from penstock.db.migrations import Migrator
from penstock.errors import InvalidValueError, LeaseLostError
from penstock.testing import Clock

NOON = datetime(2030, 5, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with Client(dsn, max_size=2) as client:
        client.create_queue("emails")
        yield client


def test_time_stands_still(dsn: str, client: Client) -> None:
    with Clock(dsn, NOON) as clock:
        ids = [client.enqueue("emails", n) for n in range(2)]
        assert {client.message(id).enqueued_at for id in ids} == {NOON}
        assert clock.now == NOON
        clock.move(0.25)
        assert clock.now == NOON + timedelta(milliseconds=250)


def test_without_a_time_it_stops_where_it_is(dsn: str) -> None:
    before = datetime.now(UTC)
    with Clock(dsn) as clock:
        assert before <= clock.now <= datetime.now(UTC)


@pytest.mark.parametrize("start", [datetime(1999, 12, 31, tzinfo=UTC), NOON])
def test_delays_are_over_when_the_clock_says_so(dsn: str, client: Client, start: datetime) -> None:
    with Clock(dsn, start) as clock:
        client.enqueue("emails", "later", delay=timedelta(days=3))
        clock.move(days=2, hours=23, minutes=59)
        assert client.claim("emails") == []
        clock.move(minutes=1)
        assert [lease.payload for lease in client.claim("emails")] == ["later"]


def test_leases_run_out_when_the_clock_says_so(dsn: str, client: Client) -> None:
    with Clock(dsn, NOON) as clock:
        client.enqueue("emails", 1)
        [lease] = client.claim("emails", lease_seconds=30)
        assert lease.lease_until == NOON + timedelta(seconds=30)
        clock.move(29)
        assert client.claim("emails") == []
        clock.move(2)
        [again] = client.claim("emails")
        assert again.attempt == 2
        with pytest.raises(LeaseLostError):
            client.ack(lease)


def test_a_backoff_is_over_when_the_clock_says_so(dsn: str, client: Client) -> None:
    client.set_queue("emails", backoff={"kind": "constant", "base_seconds": 600, "jitter": 0})
    with Clock(dsn, NOON) as clock:
        client.enqueue("emails", 1)
        client.nack(client.claim("emails")[0])
        clock.move(minutes=9)
        assert client.claim("emails") == []
        clock.move(minutes=2)
        assert len(client.claim("emails")) == 1


def test_messages_expire_when_the_clock_says_so(dsn: str, client: Client) -> None:
    with Clock(dsn, NOON) as clock:
        id = client.enqueue("emails", 1, ttl=60)
        clock.move(61)
        assert client.claim("emails") == []
        assert client.message(id).state == "expired"


def test_schedules_fire_when_the_clock_says_so(dsn: str, client: Client) -> None:
    with Clock(dsn, NOON) as clock:
        client.create_schedule("daily", "emails", "30 8 * * *", time_zone="Europe/Paris")
        assert client.schedule("daily").next_fire_at == datetime(2030, 5, 2, 6, 30, tzinfo=UTC)
        clock.set(datetime(2030, 5, 2, 6, 29, tzinfo=UTC))
        assert client.fire_schedules().count == 0
        clock.move(minutes=1)
        assert client.fire_schedules().count == 1


def test_a_throughput_limit_is_spent_and_comes_back(dsn: str, client: Client) -> None:
    client.set_queue("emails", throughput_limit=2)
    with Clock(dsn, NOON) as clock:
        client.enqueue_many("emails", range(5))
        assert len(client.claim("emails", 5)) == 2
        assert len(client.claim("emails", 5)) == 0
        clock.move(1)
        assert len(client.claim("emails", 5)) == 2


def test_the_clock_can_go_back(dsn: str, client: Client) -> None:
    with Clock(dsn, NOON) as clock:
        client.enqueue("emails", 1)
        [lease] = client.claim("emails", lease_seconds=60)
        clock.set(NOON - timedelta(days=1000))
        client.enqueue("emails", 2)
        assert [each.payload for each in client.claim("emails", 5)] == [2]
        clock.move(61)
        assert [each.payload for each in client.claim("emails", 5)] == [2]
        client.ack(lease)


def test_after_the_block_time_is_what_it_is(dsn: str, client: Client) -> None:
    with Clock(dsn, NOON):
        client.enqueue("emails", 1)
    id = client.enqueue("emails", 2)
    now = datetime.now(UTC)
    assert abs(client.message(id).enqueued_at - now) < timedelta(minutes=1)
    assert len(client.claim("emails", 5)) == 2
    with Clock(dsn, NOON) as clock:
        assert clock.now == NOON


def test_it_goes_for_every_session_and_on_after_an_error(dsn: str, client: Client) -> None:
    def fail(other: Client) -> None:
        with Clock(dsn, NOON):
            assert other.message(other.enqueue("emails", 1)).enqueued_at == NOON
            raise ZeroDivisionError

    with Client(dsn) as other:
        with pytest.raises(ZeroDivisionError):
            fail(other)
        assert other.message(other.enqueue("emails", 1)).enqueued_at != NOON


def test_migrate_up_puts_the_functions_back(dsn: str, connect: Callable[..., Any]) -> None:
    connection = connect()
    query = (
        "select count(*) from pg_proc where pronamespace = 'penstock'::regnamespace"
        " and prosrc like '%penstock.\\_clock()%'"
    )
    with Clock(dsn):
        assert connection.execute(query).fetchone()[0] > 20
    assert [step.name for step in Migrator(connection).up()] == ["functions and views"]
    assert connection.execute(query).fetchone()[0] == 0
    with Clock(dsn, NOON) as clock:  # and again
        assert clock.now == NOON
        assert connection.execute(query).fetchone()[0] > 20


@pytest.mark.parametrize("at", [datetime(2030, 1, 1), "noon", datetime(1960, 1, 1, tzinfo=UTC)])
def test_a_time_that_cannot_be_is_refused(dsn: str, at: Any) -> None:
    with pytest.raises(InvalidValueError), Clock(dsn, NOON) as clock:
        clock.set(at)


def test_outside_its_block_it_says_so(dsn: str) -> None:
    with pytest.raises(RuntimeError, match="with"):
        Clock(dsn).move(1)
