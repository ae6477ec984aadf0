"""What people type, and what becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from penstock.cli.parameters import duration, header, parse_json, time
from penstock.cli.queue_settings import parse_settings


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0", 0),
        ("0.5", 0.5),
        ("500ms", 0.5),
        ("90s", 90),
        ("5m", 300),
        ("5min", 300),
        ("1h30m", 5400),
        ("1H 30M", 5400),
        ("2d", 172800),
        ("1w", 604800),
    ],
)
def test_durations_are_seconds_or_have_units(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "-5", "5x", "m", "1h later", "9" * 40, "nan", "1e3"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="1h30m"):
        duration(text)


def test_a_time_may_carry_its_offset() -> None:
    assert time("2026-01-31T08:00:00+01:00") == datetime(2026, 1, 31, 7, tzinfo=UTC)


def test_a_time_without_offset_is_local() -> None:
    assert time("2026-01-31T08:00") == datetime(2026, 1, 31, 8).astimezone()


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-01", ""])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="2026-01-31T08:00:00"):
        time(text)


def test_a_header_is_split_at_its_first_equals_sign() -> None:
    assert header("a=b=c") == ("a", "b=c")
    assert header("a=") == ("a", "")


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_what_is_no_header_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="name=value"):
        header(text)


@pytest.mark.parametrize("text", ["1.5", "0.1", "1e22", "-0.0", "1.10"])
def test_numbers_that_can_be_kept_are_taken(text: str) -> None:
    assert parse_json(text) == float(text)


def test_whole_numbers_are_kept_to_the_last_digit() -> None:
    assert parse_json("12345678901234567890123") == 12345678901234567890123


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "line 1 column 2"),
        ("", "expecting value"),
        ("NaN", "NaN is not"),
        ("[Infinity]", "Infinity is not"),
        ("0.12345678901234567890", "too many digits"),
        ("1e999", "too many digits"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_what_is_not_json_says_where_or_why(text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(text)


def test_settings_take_json_and_words() -> None:
    assert parse_settings(
        ("max_attempts=3", "paused=yes", "dlq_enabled=off", "max_depth=none", 'backoff={"a": 1}')
    ) == {
        "max_attempts": 3,
        "paused": True,
        "dlq_enabled": False,
        "max_depth": None,
        "backoff": {"a": 1},
    }


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("max_attemps=3", "did you mean 'max_attempts'"),
        ("lease-seconds=3", "did you mean 'lease_seconds'"),
        ("colour=red", "there are lease_seconds, max_attempts"),
        ("paused", "key=value"),
    ],
)
def test_a_wrong_setting_is_named_with_the_right_one(argument: str, says: str) -> None:
    with pytest.raises(click.UsageError) as error:
        parse_settings((argument,))
    assert says in error.value.message


def test_a_setting_given_twice_is_refused() -> None:
    with pytest.raises(click.UsageError, match="twice"):
        parse_settings(("paused=yes", "paused=no"))
