"""What a person sees, on a terminal and in a pipe."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from rich.text import Text

from penstock.cli.screen import Screen, as_json, cell, duration, printable, shorten


def test_escape_codes_in_a_payload_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31mb\x00c\nd") == "a\\x1b[31mb\\x00c\\nd"
    assert cell({"a": "\x1b]0;title\x07"}) == '{"a": "\\\\u001b]0;title\\\\u0007"}'.replace(
        "\\\\", "\\"
    )


def test_rich_markup_in_a_value_is_only_text(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().table(["name"], [["[red]x[/red]"]])
    assert "[red]x[/red]" in capsys.readouterr().out


def test_a_pipe_gets_plain_columns_with_nothing_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 500
    Screen().table(["id", "text"], [[1, long], [22, None]])
    assert capsys.readouterr().out == f"ID  TEXT\n1   {long}\n22  -\n"


def test_a_terminal_gets_a_table_that_fits_it(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.out = Console(force_terminal=True, width=40, soft_wrap=True)
    screen.table(["id", "text"], [[1, "word " * 30]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert {len(Text.from_ansi(line)) for line in lines} == {40}
    assert screen.interactive


def test_a_terminal_leaves_out_optional_columns_with_nothing_in_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen()
    screen.out = Console(force_terminal=True, width=40)
    screen.table(["id", "key", "group"], [[1, None, "g"], [2, None, None]])
    shown = capsys.readouterr().out
    assert ("key" in shown, "group" in shown) == (False, True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (1.0, "1"),
        (0.25, "0.25"),
        (b"abc", "3 bytes"),
        (timedelta(minutes=3), "3 min"),
        ([1, {"a": None}], '[1, {"a": null}]'),
    ],
)
def test_values_read_as_a_person_expects(value: object, text: str) -> None:
    assert cell(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (4.21, "4.2 s"), (119, "119 s"), (180, "3 min"), (18000, "5 h"), (777600, "9 d")],
)
def test_an_age_is_told_by_its_size(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_long_text_is_shortened_for_a_terminal() -> None:
    assert shorten("x" * 100, 10) == "x" * 9 + "…"


def test_json_keeps_times_lengths_and_bytes() -> None:
    value = {"at": datetime(2026, 1, 1, tzinfo=UTC), "for": timedelta(seconds=2), "raw": b"\xff"}
    assert json.loads(as_json(value)) == {
        "at": "2026-01-01T00:00:00+00:00",
        "for": 2.0,
        "raw": "/w==",
    }
