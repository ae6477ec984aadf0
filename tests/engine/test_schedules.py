"""When cron rules fire, against an oracle of another kind; each fire once, for any callers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MINUTE = timedelta(minutes=1)
# Half an hour, negative summer time, two hours, none, and a clock put back over midnight.
ZONES = ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Europe/Dublin"]
ZONES += ["Antarctica/Troll", "Asia/Kolkata", "Atlantic/Azores", "UTC"]


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    spans = st.tuples(number, number).map(sorted).map(lambda pair: f"{pair[0]}-{pair[1]}")
    stepped = st.tuples(st.one_of(st.just("*"), spans), st.integers(1, 20)).map(
        "{0[0]}/{0[1]}".format
    )
    part = st.one_of(number.map(str), spans, stepped)
    return st.one_of(st.just("*"), st.lists(part, min_size=1, max_size=3).map(",".join))


def numbers(spec: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in spec.split(","):
        span, _, step = part.partition("/")
        first, _, last = ("*" if span == "*" else span).partition("-")
        start = low if first == "*" else int(first)
        end = high if first == "*" or (step and not last) else int(last or first)
        found |= set(range(start, end + 1, int(step or 1)))
    return found


def oracle(cron: str, zone: ZoneInfo, after: datetime, days: int) -> list[datetime]:
    """Every minute of these days, looked at one by one."""
    minute, hour, day, month, weekday = cron.split()
    either = not day.startswith("*") and not weekday.startswith("*")
    minutes, hours, days_of_month = (
        numbers(minute, 0, 59),
        numbers(hour, 0, 23),
        numbers(day, 1, 31),
    )
    months, weekdays = numbers(month, 1, 12), {n % 7 for n in numbers(weekday, 0, 7)}

    def matches(wall: datetime) -> bool:
        if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
            return False
        of_month, of_week = wall.day in days_of_month, wall.isoweekday() % 7 in weekdays
        return of_month or of_week if either else of_month and of_week

    if hour.startswith("*"):
        times = (after + n * MINUTE for n in range(1, days * 1440))
        return [at for at in times if matches(at.astimezone(zone).replace(tzinfo=None))]
    start = after.astimezone(zone).replace(tzinfo=None) - timedelta(days=1)
    walls = (start + n * MINUTE for n in range(days * 1440))
    # fold=0 is the first of two, and counts what is left out by the offset from before.
    fires = {wall.replace(tzinfo=zone).astimezone(UTC) for wall in walls if matches(wall)}
    return sorted(at for at in fires if at > after)


def transitions(zone: ZoneInfo) -> list[datetime]:
    """The hours of 2026 around which the clocks are moved."""
    hours = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(8760)]
    return [
        at
        for at in hours
        if at.astimezone(zone).utcoffset() != (at + timedelta(hours=1)).astimezone(zone).utcoffset()
    ] or [datetime(2026, 2, 27, tzinfo=UTC)]


@pytest.fixture
def database(connect: Callable[..., Any]) -> Iterator[psycopg.Connection[Any]]:
    connection = connect()
    connection.execute("set time zone 'UTC'")
    return connection


rules = given(
    parts=st.tuples(
        field(0, 59), field(0, 23), field(1, 31), st.just("*"), st.one_of(st.just("*"), field(0, 7))
    ),
    name=st.sampled_from(ZONES),
    which=st.integers(0, 1),
    before=st.integers(0, 30 * 60),
)
shared = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
    "derandomize": True,
}


@settings(max_examples=20, **shared)
@rules
def test_rules_fire_when_an_oracle_says_around_the_nights_when_clocks_move(
    database: Any, parts: tuple[str, ...], name: str, which: int, before: int
) -> None:
    compare_with_oracle(database, parts, name, which, before)


@pytest.mark.slow
@settings(max_examples=400, **shared)
@rules
def test_many_rules_fire_when_an_oracle_says_around_the_nights_when_clocks_move(
    database: Any, parts: tuple[str, ...], name: str, which: int, before: int
) -> None:
    compare_with_oracle(database, parts, name, which, before)


def compare_with_oracle(
    database: Any, parts: tuple[str, ...], name: str, which: int, before: int
) -> None:
    zone, cron = ZoneInfo(name), " ".join(parts)
    turns = transitions(zone)
    after = turns[which % len(turns)] - timedelta(minutes=before)
    expected = oracle(cron, zone, after, 5)[:40]
    found = database.execute(
        "select penstock.next_fires(%s, %s, %s, %s)", [cron, name, max(1, len(expected)), after]
    ).fetchall()
    assert [row[0] for row in found][: len(expected)] == expected


def test_words_mean_what_their_numbers_mean(database: Any) -> None:
    same = {
        "0 0 * jan,JUL *": "0 0 * 1,7 *",
        "0 0 * * mon-fri": "0 0 * * 1-5",
        "0 0 * * sat-sun": "0 0 * * 6,0",
        "0 0 * * 7": "0 0 * * 0",
        "0 0 * * fri-7": "0 0 * * 5,6,0",
        "  @Weekly ": "0 0 * * 0",
        "5/20 * * * *": "5,25,45 * * * *",
        "0\t0 1  1 *": "@yearly",
    }
    query = "select array(select penstock.next_fires(%s, 'Europe/Paris', 20, '2026-01-01Z'))"
    for words, plain in same.items():
        assert (
            database.execute(query, [words]).fetchone()
            == database.execute(query, [plain]).fetchone()
        )


def test_the_29th_of_february_is_found_across_a_century(database: Any) -> None:
    query = "select penstock.next_fires('0 0 29 2 *', 'UTC', 1, '2096-03-01Z')"
    assert database.execute(query).fetchone()[0] == datetime(2104, 2, 29, tzinfo=UTC)


def test_each_fire_is_enqueued_once_however_many_callers_there_are(dsn: str, database: Any) -> None:
    database.execute("select penstock.create_queue('work')")
    for n in range(5):
        database.execute(
            "select penstock.create_schedule(%s, 'work', '* * * * *', settings => %s)",
            [f"s{n}", '{"missed": "all"}'],
        )
    database.execute(
        "update penstock.schedule"
        " set next_fire_at = date_trunc('minute', now()) - interval '10 minutes'"
    )
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def call(roll_back: bool) -> None:
        try:
            with psycopg.connect(dsn) as connection:
                start.wait()
                for _ in range(4):
                    connection.execute("select * from penstock.fire_schedules()")
                    (connection.rollback if roll_back else connection.commit)()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=[n < 1]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    database.execute("select * from penstock.fire_schedules()")
    fires = Counter(
        database.execute(
            "select headers ->> 'penstock-schedule', headers ->> 'penstock-fire-at'"
            " from penstock.messages"
        ).fetchall()
    )
    assert set(fires.values()) == {1}
    assert len({name for name, _ in fires}) == 5
    per_schedule = Counter(name for name, _ in fires)
    assert set(per_schedule.values()) <= {11, 12}


def test_a_caller_of_repeatable_read_fires_nothing_twice(
    connect: Callable[..., Any], database: Any
) -> None:
    database.execute("select penstock.create_queue('work')")
    database.execute("select penstock.create_schedule('s', 'work', '@daily')")
    old = connect(autocommit=False)
    old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    database.execute("update penstock.schedule set next_fire_at = now() - interval '1 minute'")
    old.execute("select 1 from penstock.queue")
    database.execute("select penstock.fire_schedules()")
    with pytest.raises(psycopg.errors.SerializationFailure):
        old.execute("select penstock.fire_schedules()")
    assert database.execute("select count(*) from penstock.messages").fetchone() == (1,)


def test_two_callers_make_one_schedule(
    dsn: str, connect: Callable[..., Any], database: Any
) -> None:
    database.execute("select penstock.create_queue('work')")
    first = connect(autocommit=False)
    first.execute("select penstock.create_schedule('s', 'work', '@daily')")
    made: list[Any] = []
    query = "select penstock.create_schedule('s', 'work', '@hourly', exist_ok => true)"
    second = threading.Thread(target=lambda: made.extend(database.execute(query).fetchone()))
    second.start()
    first.commit()
    second.join()
    assert made == [False]
