"""Charts as inline SVG. This module computes coordinates, and the templates draw them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from penstock.server.ui.formats import duration, short, zoned

# Near the size at which charts are shown, so that their text has the size of other text.
WIDTH: Final = 360
HEIGHT: Final = 140
LEFT: Final = 58
RIGHT: Final = 8
BOTTOM: Final = 22
TOP: Final = 8
# Times on the axis are at least this far apart, because they would overlap otherwise.
APART: Final = 78
# Round durations whose halves are round too. Beyond the last, a multiple of it.
ROUND_SECONDS: Final = (60, 120, 240, 600, 1200, 3600, 7200, 14400, 43200, 86400)
# Below this duration the labels show seconds, because minutes would repeat.
SHORT: Final = timedelta(minutes=5)
# Lines differ by their dashes, not by their colour alone.
DASHES: Final = ("", "6 3", "2 3", "10 3 2 3", "1 4")


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line: its name, its path, its last value."""

    name: str
    path: str
    dots: str
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
    is_seconds: bool
    clock: str  # the format of its times
    times: Sequence[datetime]
    xs: Sequence[float]
    values: Sequence[Sequence[float | None]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT

    def show(self, value: float | None) -> str:
        """A value with its unit."""
        return duration(value) if self.is_seconds else short(value)

    def label(self, value: float) -> str:
        """A value of the axis, which is round."""
        if not self.is_seconds or value == 0:
            return short(value)
        if value < 1:
            return f"{value * 1000:g} ms"
        return f"{value:g} s" if value < ROUND_SECONDS[0] else duration(value)


def chart(
    times: Sequence[datetime], series: dict[str, Sequence[float | None]], is_seconds: bool = False
) -> Chart:
    """A chart of one or more lines. None makes a gap."""
    values = [v for line in series.values() for v in line if v is not None]
    top = (nice_seconds if is_seconds else nice)(max(values, default=0))
    xs = _xs(times)
    lines = [
        ChartLine(
            name,
            *_path(xs, [_y(v, top) for v in line]),
            DASHES[number % len(DASHES)],
            number,
            next((v for v in reversed(line) if v is not None), None),
        )
        for number, (name, line) in enumerate(series.items())
    ]
    ticks_y = [(_at(share * top, top), share * top) for share in (0, 0.5, 1)]
    ticks_x = [(xs[n], times[n]) for n in _ticks(xs)]
    is_short = bool(times) and times[-1] - times[0] < SHORT
    clock = "%H:%M:%S" if is_short else "%H:%M"
    found = list(series.values())
    return Chart(lines, ticks_y, ticks_x, top, not values, is_seconds, clock, times, xs, found)


def hover(drawn: Chart, days: bool) -> str:
    """The values of a chart as JSON, for the script that shows those under the pointer."""
    clock = "%b %d %H:%M" if days else drawn.clock
    points = [
        [
            round(drawn.xs[n], 1),
            zoned(at, clock),
            *(drawn.show(line[n]) for line in drawn.values),
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


def nice_seconds(value: float) -> float:
    """The next round duration."""
    if value <= 30:
        return nice(value)
    unit = ROUND_SECONDS[-1]
    return next((float(s) for s in ROUND_SECONDS if s >= value), unit * nice(value / unit))


def _xs(times: Sequence[datetime]) -> list[float]:
    """Where each time is. The last step may be shorter than the others."""
    width = WIDTH - LEFT - RIGHT
    if len(times) < 2:
        return [LEFT + width / 2 for _ in times]
    length = times[-1] - times[0]
    return [LEFT + width * ((at - times[0]) / length) for at in times]


def _ticks(xs: Sequence[float]) -> list[int]:
    """The first and the last place, and those near the thirds that have room."""
    if len(xs) < 2:
        return list(range(len(xs)))
    last = len(xs) - 1
    found = [0]
    for share in (1 / 3, 2 / 3):
        goal = xs[0] + share * (xs[last] - xs[0])
        near = min(range(len(xs)), key=lambda n: abs(xs[n] - goal))
        if xs[near] - xs[found[-1]] >= APART and xs[last] - xs[near] >= APART:
            found.append(near)
    return [*found, last]


def _at(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _y(value: float | None, top: float) -> float | None:
    return None if value is None else _at(value, top)


def _path(xs: Sequence[float], ys: Sequence[float | None]) -> tuple[str, str]:
    """The line, and the values without a neighbour, which are drawn as dots."""
    words, dots, down = [], [], False
    for n, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if y is None:
            down = False
            continue
        place = f"{x:.1f},{y:.1f}"
        if not down and (n + 1 == len(ys) or ys[n + 1] is None):
            dots.append(f"M{place} h0")
            continue
        words.append(f"{'L' if down else 'M'}{place}")
        down = True
    return " ".join(words), " ".join(dots)
