"""The stored charts of the queues."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, utc, utc_row
from penstock.model.monitoring import ChartPoint, RecentOutcomes

_CHART: Final = call(
    "chart",
    "at, ready, leased, scheduled, dead, estimated, done, failed, died, waits, runs",
    queue="text",
    since="timestamptz",
    step="interval",
    is_hour="boolean",
)
_DEPTHS: Final = call("recent_depths", "queue, at, ready")
_OUTCOMES: Final = call("recent_outcomes", "queue, done, failed, is_current")


def chart(
    queue: str | None, since: datetime, step: timedelta, *, is_hour: bool
) -> Command[list[ChartPoint]]:
    """The counts of a queue, or of all queues, for each step with at least one event."""
    params = {
        "queue": check.optional_text("queue", queue),
        "since": since,
        "step": step,
        "is_hour": is_hour,
    }

    def decode(rows: Rows) -> list[ChartPoint]:
        return [ChartPoint(*utc_row(row)) for row in rows]

    return Command(_CHART, params, decode)


def recent_depths() -> Command[dict[str, dict[datetime, int]]]:
    """The ready messages of each queue by minute, for the last hour.

    The empty name stands for all queues. It has every minute that was recorded.
    """

    def decode(rows: Rows) -> dict[str, dict[datetime, int]]:
        return {
            queue: dict(zip((utc(each) for each in at), ready, strict=True))
            for queue, at, ready in rows
        }

    return Command(_DEPTHS, {}, decode)


def recent_outcomes() -> Command[RecentOutcomes]:
    """The messages that were done and the attempts that failed in the last five minutes."""

    def decode(rows: Rows) -> RecentOutcomes:
        return RecentOutcomes(
            done={queue: done for queue, done, _, _ in rows if queue},
            failed={queue: failed for queue, _, failed, _ in rows if queue},
            is_current=all(is_current for *_, is_current in rows),
        )

    return Command(_OUTCOMES, {}, decode)
