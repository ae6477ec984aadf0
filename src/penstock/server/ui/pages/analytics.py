"""Analytics: charts of the gold tables. They do not read the tables of the queues."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from penstock.commands.read import analytics as gold
from penstock.commands.read.analytics import GoldStep
from penstock.server.ui.pages.messages import readable
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
QUARTER: Final = 900
# Ranges: the duration, and the step of the charts in seconds. None means days.
RANGES: Final[dict[str, tuple[timedelta, int | None]]] = {
    "1 h": (timedelta(hours=1), 60),
    "6 h": (timedelta(hours=6), 300),
    "24 h": (timedelta(hours=24), QUARTER),
    "7 d": (timedelta(days=7), None),
    "30 d": (timedelta(days=30), None),
    "90 d": (timedelta(days=90), None),
}
# Minutes of all queues are read in parts, two at a time, so that each query is short.
PART: Final = timedelta(hours=3)
# Gold is published at intervals, so the pages may cache it for a minute.
KEPT_SECONDS: Final = 60.0


@pages("/analytics")
async def analytics(visit: Visit) -> View:
    chosen = visit.asked_one("range", tuple(RANGES))
    queue = visit.asked("queue")
    queues = await readable(visit, queue)
    key = ("analytics", chosen, queue, None if queues is None else tuple(queues))
    found = await visit.context.cache.get(key, KEPT_SECONDS, lambda: _read(visit, chosen, queues))
    snapshot = await visit.look("queues", "lakes")
    data = {
        "range": chosen,
        "queue": queue,
        "ranges": list(RANGES),
        "queues": [queue.name for queue in snapshot.queues],
        "lakes": snapshot.lakes,
        **found,
    }
    return View("analytics.html", "Analytics", data)


async def _read(visit: Visit, chosen: str, queues: list[str] | None) -> dict[str, Any]:
    last_minute, last_day = await visit.run(gold.latest())
    if last_minute is None and last_day is None:
        return {"published": None, "series": None, "by_queue": [], "errors": [], "workers": []}
    length, step = RANGES[chosen]
    # The range ends at the newest gold row, so a lake that lags still has charts.
    end = last_minute or last_day
    assert end is not None
    until = end + timedelta(minutes=1)
    since = until - length
    if step is None:
        steps = await visit.run(gold.days(since, until, queues))
    elif step == QUARTER:
        steps = _filled(await visit.run(gold.quarters(since, until, queues)), since, until, step)
    else:
        two = asyncio.Semaphore(2)

        async def ask(start: datetime) -> list[GoldStep]:
            async with two:
                part = gold.minutes(start, min(start + PART, until), step, queues)
                return await visit.run(part)

        parts = await asyncio.gather(*map(ask, _parts(since, until)))
        steps = _filled([each for part in parts for each in part], since, until, step)
    hour = until - timedelta(hours=1)
    return {
        "published": until,
        "series": series(steps, step),
        "by_queue": await visit.run(gold.by_queue(since, until, queues)),
        "errors": await visit.run(gold.errors(since, until, queues)),
        "workers": await visit.run(gold.workers(hour, until, queues)),
    }


def _parts(since: datetime, until: datetime) -> list[datetime]:
    count = -(-(until - since) // PART)
    return [since + n * PART for n in range(count)]


def _filled(steps: list[GoldStep], since: datetime, until: datetime, step: int) -> list[GoldStep]:
    """A step without finished messages has no row. Steps that two parts share are merged."""
    by_time: dict[int, GoldStep] = {}
    for each in steps:
        at = int(each.of.timestamp())
        by_time[at] = _sum(by_time[at], each) if at in by_time else each
    first = int(since.timestamp()) // step * step
    return [
        by_time.get(at) or GoldStep(datetime.fromtimestamp(at, since.tzinfo), 0, 0, 0, 0)
        for at in range(first, int(until.timestamp()), step)
    ]


def _sum(one: GoldStep, other: GoldStep) -> GoldStep:
    def both(name: str) -> Any:
        values = [getattr(each, name) for each in (one, other)]
        if name in _COUNTS:
            return sum(values)
        return max((value for value in values if value is not None), default=None)

    return replace(one, **{name: both(name) for name in GoldStep.__slots__ if name != "of"})


_COUNTS: Final = ("done", "dead", "others", "failed_attempts", "payload_bytes")


def series(steps: list[GoldStep], step: int | None) -> dict[str, Any]:
    """The lines of the charts, with counts for each minute or day."""
    share = 1 if step is None else 60 / step

    def line(name: str, factor: float = 1) -> list[float | None]:
        values = [getattr(each, name) for each in steps]
        return [None if value is None else round(value * factor, 4) for value in values]

    return {
        "at": [each.of for each in steps],
        "unit": "day" if step is None else "minute",
        "done": line("done", share),
        "dead": line("dead", share),
        "failed_attempts": line("failed_attempts", share),
        "others": line("others", share),
        "wait_p50": line("wait_p50"),
        "wait_p95": line("wait_p95"),
        "wait_p99": line("wait_p99"),
        "work_p50": line("work_p50"),
        "work_p95": line("work_p95"),
        "work_p99": line("work_p99"),
        "backlog_age_seconds": line("backlog_age_seconds"),
        "payload_bytes": line("payload_bytes", share),
    }
