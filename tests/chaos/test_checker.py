"""The checker finds what must not be, and nothing else: histories written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from .checker import Checker, Verdict

# Message 7 with nonce 1, enqueued, claimed with token 50, run, acked.
GOOD = """
    T 1 0 0 10
    E 1 7 12
    C 7 50 20 22
    S 7 50 1 23
    F 7 50 24
    > ack 7 50 25
    < ack 7 50 27
"""
# Then 8 with nonce 2, the next of the same group.
PAIR = """
    T 1 5 1 10
    T 2 5 2 10
    E 1 7 12
    E 2 8 12
    C 7 50 20 22
    > ack 7 50 25
    C 8 51 25 26
    < ack 7 50 27
    > ack 8 51 28
    < ack 8 51 29
"""


@pytest.fixture
def judge(tmp_path: Path) -> object:
    def act(text: str, left: tuple[int, ...] = ()) -> Verdict:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        (tmp_path / "one.journal").write_text("\n".join(lines) + "\n")
        return Checker(tmp_path).verdict(frozenset(left))

    return act


def faults(verdict: Verdict) -> dict[str, int]:
    names = ("lost", "stale_settles", "ghosts", "order_violations")
    return {name: verdict.counts()[name] for name in names if verdict.counts()[name]}


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        PAIR,
        # The client does not know that it was not committed.
        "T 1 0 0 10",
        # The client does not know that it was committed.
        GOOD.replace("E 1 7 12", ""),
        # Rolled back, and not seen again.
        "T 1 0 0 10\nR 1 12",
        # The ack was not answered: the line broke, or the worker was killed.
        GOOD.replace("< ack 7 50 27", ""),
        # It was sent again, and the first had worked.
        GOOD.replace("< ack 7 50 27", "> ack 7 50 30\n! ack 7 50 31"),
        # A worker was killed, and another did it.
        GOOD.replace("C 7 50 20 22", "C 7 40 13 14\nS 7 40 1 15\nC 7 50 20 22"),
        # A worker was slow, came too late, and was told so.
        GOOD.replace("C 7 50 20 22", "C 7 40 13 14\nC 7 50 20 22") + "> ack 7 40 40\n! ack 7 40 41",
        # It failed, and was tried again; the first claim had the higher number.
        GOOD.replace("C 7 50 20 22", "C 7 60 13 14\n> nack 7 60 15\n< nack 7 60 16\nC 7 50 12 22"),
        # The answer to a nack came only after the next one had it.
        GOOD.replace("C 7 50 20 22", "C 7 40 13 14\n> nack 7 40 19\nC 7 50 20 22\n< nack 7 40 26"),
    ],
)
def test_a_good_history_has_no_faults(judge, text: str) -> None:
    assert faults(judge(text)) == {}


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("lost", "T 1 0 0 10\nE 1 7 12"),
        ("lost", GOOD.replace("> ack 7 50 25", "").replace("< ack 7 50 27", "")),
        ("lost", GOOD.replace("<", "!")),
        ("lost", GOOD.replace("ack", "nack")),
        ("ghosts", GOOD.replace("E 1 7 12", "R 1 12")),
        ("ghosts", GOOD.replace("T 1 0 0 10", "").replace("E 1 7 12", "")),
        # Two claims, and the first one's ack was taken.
        ("stale_settles", GOOD + "C 7 60 40 41"),
        ("stale_settles", GOOD.replace("S 7 50 1 23", "C 7 60 23 24")),
        ("stale_settles", GOOD + "C 7 40 13 14\n> ack 7 40 15\n< ack 7 40 16"),
        # A nack of the first after the second had it.
        ("stale_settles", GOOD + "C 7 40 13 14\n> nack 7 40 24\n< nack 7 40 26"),
        # The first of a group again, after the second.
        ("order_violations", PAIR + "C 7 60 30 31\n! ack 7 50 32\n> ack 7 60 33\n< ack 7 60 34"),
        # The second while the first was in work.
        ("order_violations", PAIR.replace("C 8 51 25 26", "C 8 51 22 23")),
    ],
)
def test_each_fault_is_found(judge, fault: str, text: str) -> None:
    assert set(faults(judge(text))) == {fault}


def test_a_line_that_was_cut_short_was_never_written(tmp_path: Path) -> None:
    text = "\n".join(line.strip() for line in GOOD.strip().splitlines())
    (tmp_path / "one.journal").write_text(text + "\n! ack 7 5")
    assert faults(Checker(tmp_path).verdict()) == {}


def test_what_is_left_in_the_database_was_not_delivered(judge) -> None:
    assert faults(judge(GOOD)) == {}
    assert faults(judge(GOOD, left=(7,))) == {"lost": 1}


def test_the_counts_say_what_there_was(judge) -> None:
    found = judge(PAIR + "T 3 0 0 9\nR 3 9\nT 4 0 0 9").counts()
    assert (found["messages"], found["committed"], found["unknown"]) == (4, 2, 1)
    assert (found["acked"], found["repeated"]) == (2, 0)
