"""The charts of the overview and of a queue, from what the database has stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from penstock.commands import read
from penstock.model.monitoring import QUANTILES, ChartPoint
from penstock.server.ui.visits import Visit

# Minutes are recorded once a minute, so pages may share a result for a while.
KEPT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a chart, the length of its steps, and whether it consists of hours."""

    length: timedelta
    step: timedelta
    is_hour: bool = False


RANGES: Final[dict[str, Range]] = {
    "1 h": Range(timedelta(hours=1), timedelta(minutes=1)),
    "6 h": Range(timedelta(hours=6), timedelta(minutes=5)),
    "24 h": Range(timedelta(hours=24), timedelta(minutes=15)),
    "7 d": Range(timedelta(days=7), timedelta(hours=2), is_hour=True),
    "30 d": Range(timedelta(days=30), timedelta(hours=6), is_hour=True),
    "90 d": Range(timedelta(days=90), timedelta(days=1), is_hour=True),
}
_NAMES: Final = ("p50", "p95", "p99")


async def read_charts(visit: Visit, queue: str | None, now: Mapping[str, Any]) -> dict[str, Any]:
    """The series of the charts of a queue, or of all queues, for the range that was asked for.

    `now` has the present depths. They are the last point of charts that are made of minutes.
    """
    chosen = visit.asked_one("range", tuple(RANGES))
    range_ = RANGES[chosen]
    until = datetime.now(UTC)
    since = step_of(until - range_.length, range_.step)
    command = read.chart(queue, since, range_.step, is_hour=range_.is_hour)
    points = await visit.context.cache.get(
        ("chart", queue, chosen), KEPT_SECONDS, lambda: visit.run(command)
    )
    made = series(fill(points, since, until, range_.step), range_.step)
    if not range_.is_hour:
        add_present(made, until, now)
    return {"range": chosen, "ranges": list(RANGES), **made}


def step_of(at: datetime, step: timedelta) -> datetime:
    """The start of the step that contains a time, as the database computes it."""
    origin = datetime(2000, 1, 1, tzinfo=UTC)
    return origin + (at - origin) // step * step


def fill(
    points: list[ChartPoint], since: datetime, until: datetime, step: timedelta
) -> list[ChartPoint]:
    """Every step from the first recorded one to the last complete one."""
    found = {point.at: point for point in points}
    first = max(since, min(found, default=until))
    count = max((until - first) // step, 0)
    every = [first + n * step for n in range(count)]
    return [found.get(at) or ChartPoint(at) for at in every]


def series(points: list[ChartPoint], step: timedelta) -> dict[str, Any]:
    """The lines of the charts. Rates are averages over a step, per minute."""
    minutes = step / timedelta(minutes=1)

    def line(value: Callable[[ChartPoint], Any]) -> list[Any]:
        return [value(point) for point in points]

    def seconds(name: str) -> dict[str, list[float | None]]:
        def of(point: ChartPoint, n: int) -> float | None:
            found = getattr(point, name)
            return None if found is None else round(found[n], 4)

        return {_NAMES[n]: [of(point, n) for point in points] for n in range(len(QUANTILES))}

    return {
        "at": line(lambda point: point.at),
        "step_seconds": step.total_seconds(),
        "estimated": any(point.estimated for point in points),
        **{
            name: line(lambda point, name=name: getattr(point, name))  # type: ignore[misc]
            for name in ("ready", "leased", "scheduled", "dead")
        },
        "done_per_minute": line(lambda point: round(point.done / minutes, 2)),
        "failed_per_minute": line(lambda point: round(point.failed / minutes, 2)),
        "died_per_minute": line(lambda point: round(point.died / minutes, 2)),
        "wait_seconds": seconds("waits"),
        "run_seconds": seconds("runs"),
    }


def add_present(made: dict[str, Any], at: datetime, now: Mapping[str, Any]) -> None:
    """The present depths as the last point. It has no rates, because its minute is not complete."""
    made["at"].append(at)
    for name in ("ready", "leased", "scheduled", "dead"):
        made[name].append(now[name])
    for name in ("done_per_minute", "failed_per_minute", "died_per_minute"):
        made[name].append(None)
    for lines in (made["wait_seconds"], made["run_seconds"]):
        for values in lines.values():
            values.append(None)
