"""The geometry of charts: places by time, round axes, dots for values without a neighbour."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from penstock.server.ui.charts import APART, LEFT, RIGHT, WIDTH, chart, hover

BEGUN = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def minutes(*at: float) -> list[datetime]:
    return [BEGUN + timedelta(minutes=each) for each in at]


def test_places_follow_the_time_also_where_the_last_step_is_shorter() -> None:
    drawn = chart(minutes(0, 10, 20, 21), {"ready": [1, 2, 3, 4]})
    assert (drawn.xs[0], drawn.xs[-1]) == (LEFT, WIDTH - RIGHT)
    steps = [b - a for a, b in pairwise(drawn.xs)]
    assert steps[0] == pytest.approx(steps[1]) == pytest.approx(10 * steps[2])


@pytest.mark.parametrize("count", [1, 2, 3, 5, 60, 97])
def test_times_on_the_axis_do_not_overlap(count: int) -> None:
    drawn = chart(minutes(*range(count)), {"ready": [1.0] * count})
    places = [x for x, _ in drawn.ticks_x]
    assert drawn.ticks_x[0][1] == BEGUN
    assert drawn.ticks_x[-1][1] == BEGUN + timedelta(minutes=count - 1)
    assert all(b - a >= APART for a, b in pairwise(places))


@pytest.mark.parametrize(
    ("most", "labels"),
    [
        (0.004, ["0", "2.5 ms", "5 ms"]),
        (0.7, ["0", "500 ms", "1 s"]),
        (4, ["0", "2.5 s", "5 s"]),
        (31, ["0", "30 s", "1 min"]),
        (100, ["0", "1 min", "2 min"]),
        (8_000, ["0", "2 h", "4 h"]),
        (90_000, ["0", "1 d", "2 d"]),
    ],
)
def test_an_axis_of_durations_has_round_labels(most: float, labels: list[str]) -> None:
    drawn = chart(minutes(0, 1), {"p50": [0.0, most]}, is_seconds=True)
    assert [drawn.label(value) for _, value in drawn.ticks_y] == labels


def test_a_value_without_a_neighbour_is_a_dot() -> None:
    drawn = chart(minutes(0, 1, 2, 3, 4), {"p50": [1, None, 2, 3, None], "p99": [None] * 5})
    [line, empty] = drawn.lines
    assert (line.dots.count("M"), line.path.count("M"), line.path.count("L")) == (1, 1, 1)
    assert (empty.path, empty.dots, empty.last) == ("", "", None)


def test_the_values_under_the_pointer_are_those_of_each_time() -> None:
    drawn = chart(minutes(0, 1), {"p50": [0.25, None], "p95": [90, 3]}, is_seconds=True)
    shown = json.loads(hover(drawn, days=False))
    assert shown["names"] == ["p50", "p95"]
    assert [point[1:] for point in shown["points"]] == [
        ["12:00:00", "250 ms", "1 min 30 s"],
        ["12:01:00", "-", "3.0 s"],
    ]
