"""Counters for monitoring systems, stored charts, and the state of notifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.commands.command import Command, Rows, call, nothing, scalar, utc_row
from penstock.commands.payload import encode_json
from penstock.model.monitoring import Announcement, QueueCounter

_COUNT_FINISHED: Final = call("count_finished", "queue, event, count")
_RECORD_CHARTS: Final = call("record_charts")
_LEAD: Final = call("lead_notifications", holder="text", seconds="integer")
_RELEASE: Final = call("release_notifications", holder="text")
_ANNOUNCEMENTS: Final = call(
    "announcements", "finding, kind, severity, title, since, missing_since", destination="text"
)
_STORE: Final = call("store_announcements", destination="text", findings="jsonb")


def count_finished() -> Command[list[QueueCounter]]:
    """Add the messages that ended since the last call to the counters, and return all counters."""
    return Command(
        _COUNT_FINISHED, {}, lambda rows: [QueueCounter(*row) for row in rows], light=True
    )


def record_charts() -> Command[int]:
    """Add the events since the last call to the stored charts. The result is the number of rows.

    The first call in each minute does the work, on any server.
    """
    return Command(_RECORD_CHARTS, {}, scalar, light=True)


def lead_notifications(holder: str, seconds: int) -> Command[bool]:
    """Take or keep the lease of the server that sends notifications. True if it has it."""
    return Command(_LEAD, {"holder": holder, "seconds": seconds}, scalar, light=True)


def release_notifications(holder: str) -> Command[None]:
    """Release the lease, so that another server can take it at once."""
    return Command(_RELEASE, {"holder": holder}, nothing)


def announcements(destination: str) -> Command[list[Announcement]]:
    """The findings that were sent to a destination and are not over."""

    def decode(rows: Rows) -> list[Announcement]:
        return [Announcement(*utc_row(row)) for row in rows]

    return Command(_ANNOUNCEMENTS, {"destination": destination}, decode)


def store_announcements(destination: str, findings: Sequence[Announcement]) -> Command[None]:
    """Replace the findings that `announcements` returns."""
    documents = [
        {
            "finding": each.finding,
            "kind": each.kind,
            "severity": each.severity,
            "title": each.title,
            "since": each.since.isoformat(),
            "missing_since": each.missing_since and each.missing_since.isoformat(),
        }
        for each in findings
    ]
    params = {"destination": destination, "findings": encode_json(documents, "findings")}
    return Command(_STORE, params, nothing)
