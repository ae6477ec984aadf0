"""Charts as inline SVG. This module computes coordinates, and the templates draw them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from penstock.server.ui.formats import duration, short, zoned

WIDTH: Final = 640
HEIGHT: Final = 180
LEFT: Final = 52
BOTTOM: Final = 22
TOP: Final = 8
# Below this duration the labels show seconds, because minutes would repeat.
SHORT: Final = timedelta(minutes=5)
# Lines differ by their dashes, not by their colour alone.
DASHES: Final = ("", "6 3", "2 3", "10 3 2 3", "1 4")


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line: its name, its path, its last value."""

    name: str
    path: str
    dash: str
    number: int
    last: float | None


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over time, with ticks at round numbers."""

    lines: list[ChartLine]
    ticks_y: list[tuple[float, float]]  # (where, value)
    ticks_x: list[tuple[float, datetime]]
    top: float
    empty: bool
    clock: str = "%H:%M"  # the format of its times
    times: Sequence[datetime] = ()
    values: Sequence[Sequence[float | None]] = ()


def chart(times: Sequence[datetime], series: dict[str, Sequence[float | None]]) -> Chart:
    """A chart of one or more lines. None makes a gap."""
    values = [v for line in series.values() for v in line if v is not None]
    top = nice(max(values, default=0))
    lines = [
        ChartLine(
            name,
            _path([_x(n, len(times)) for n in range(len(times))], [_y(v, top) for v in line]),
            DASHES[number % len(DASHES)],
            number,
            next((v for v in reversed(line) if v is not None), None),
        )
        for number, (name, line) in enumerate(series.items())
    ]
    ticks_y = [(_at(share * top, top), share * top) for share in (0, 0.5, 1)]
    steps = sorted({0, len(times) // 3, 2 * len(times) // 3, len(times) - 1}) if times else []
    ticks_x = [(_x(n, len(times)), times[n]) for n in steps]
    short = bool(times) and times[-1] - times[0] < SHORT
    clock = "%H:%M:%S" if short else "%H:%M"
    return Chart(lines, ticks_y, ticks_x, top, not values, clock, times, list(series.values()))


def hover(drawn: Chart, seconds: bool, days: bool) -> str:
    """The values of a chart as JSON, for the script that shows those under the pointer."""
    show = duration if seconds else short
    clock = "%b %d %H:%M" if days else drawn.clock
    points = [
        [
            round(_x(n, len(drawn.times)), 1),
            zoned(at, clock),
            *("-" if line[n] is None else show(line[n]) for line in drawn.values),
        ]
        for n, at in enumerate(drawn.times)
    ]
    return json.dumps({"names": [line.name for line in drawn.lines], "points": points})


def spark(values: Sequence[float], width: int = 96, height: int = 22) -> str:
    """The path of a line without axes."""
    if len(values) < 2:
        return ""
    top = max([*values, 1])
    step = width / (len(values) - 1)
    points = (
        f"{n * step:.1f},{height - 1 - value / top * (height - 2):.1f}"
        for n, value in enumerate(values)
    )
    return "M" + " L".join(points)


def nice(value: float) -> float:
    """The next round number: 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return next(float(step * power) for step in (1, 2, 5, 10) if step * power >= value)


def _x(number: int, of: int) -> float:
    return LEFT + (WIDTH - LEFT - 6) * (number / (of - 1) if of > 1 else 0.5)


def _at(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _y(value: float | None, top: float) -> float | None:
    return None if value is None else _at(value, top)


def _path(xs: Sequence[float], ys: Sequence[float | None]) -> str:
    words, down = [], False
    for n, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if y is None:
            down = False
            continue
        words.append(f"{'L' if down else 'M'}{x:.1f},{y:.1f}")
        if not down and (n + 1 == len(ys) or ys[n + 1] is None):
            words.append("h1")  # a single value is drawn as a dot
        down = True
    return " ".join(words)
