"""Question -> Command, for pages that show much at once: all queues, messages by the page, what
dead letters died of, storage. Each is bounded, however many messages there are. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final, get_args

from penstock import arguments as check
from penstock.command import Command, Rows, call, scalar, utc
from penstock.payload import decode_json
from penstock.queue import QueueStats
from penstock.sighting import (
    DeadError,
    Heartbeat,
    HorizonHolder,
    Pace,
    Shelf,
    SightFilter,
    Sighting,
    Sightings,
    Times,
)

_ALL_STATS: Final = call("all_stats")
_OVERDUE: Final = call("overdue", most="integer")
_DEAD_ERRORS: Final = call("dead_errors", queue="text", sample="integer")
PAGE: Final = 50
# Rows that one look goes over, some 2 microseconds each.
LOOK: Final = 10_000
SAMPLE: Final = 5_000


def all_stats() -> Command[list[QueueStats]]:
    """What every queue holds, by name; what is too much to count is estimated."""
    return Command(_ALL_STATS, {}, lambda rows: [QueueStats(*row) for row in rows])


def browse(
    state: Shelf,
    queues: list[str] | None = None,
    filter: SightFilter | None = None,
    *,
    place: str | None = None,
    page: int = PAGE,
    look: int = LOOK,
) -> Command[Sightings]:
    """A page of the messages in a state; the next begins at its `next`.

    A filter that few messages pass may leave a page short, or empty, with more to look at.
    """
    chosen = filter or SightFilter()
    names = ("key", "error", "worker", "enqueued_before", "enqueued_after")
    params = {
        "state": check.one_of("state", state, get_args(Shelf)),
        "queues": None if queues is None else [check.text("queues", name) for name in queues],
        **dict(zip(names, astuple(chosen), strict=True)),
        "place": check.optional_text("place", place),
        # One more than is shown tells whether there is more.
        "page": check.whole("page", page) + 1,
        "look": check.whole("look", look),
    }

    def decode(rows: Rows) -> Sightings:
        *found, (*_, next_place, looked) = rows
        shown = [Sighting(*_in_utc(row[:-1])) for row in found[:page]]
        more = shown[-1].place if len(found) > page else next_place
        return Sightings(shown, looked, more)

    return Command(_text("browse"), params, decode)


def whereabouts(ids: Sequence[int]) -> Command[dict[int, tuple[str, str]]]:
    """The (queue, state) of each of the messages that is found quickly."""
    params = {"ids": [check.whole("ids", id, check.INT8) for id in ids]}
    return Command(
        _text("whereabouts"), params, lambda rows: {id: (queue, state) for id, queue, state in rows}
    )


def recent(seconds: float = 300, sample: int = SAMPLE) -> Command[list[Pace]]:
    """What finished within the last seconds, as far as a sample of the latest reaches."""
    params = {"seconds": seconds, "sample": sample}
    return Command(_text("recent"), params, lambda rows: [Pace(*row) for row in rows])


def recent_attempts(seconds: float = 300, sample: int = SAMPLE) -> Command[list[Pace]]:
    """The attempts that failed within the last seconds, likewise."""
    params = {"seconds": seconds, "sample": sample}
    return Command(
        _text("recent_attempts"),
        params,
        lambda rows: [Pace(queue, "failed", count, seconds) for queue, count, seconds in rows],
    )


def recent_lost_leases(seconds: float = 300, sample: int = SAMPLE) -> Command[list[Pace]]:
    """The leases that ran out within the last seconds, likewise."""
    params = {"seconds": seconds, "sample": sample}
    return Command(
        _text("recent_lost_leases"),
        params,
        lambda rows: [Pace(queue, "lost", count, seconds) for queue, count, seconds in rows],
    )


def recent_times(seconds: float = 300, sample: int = SAMPLE) -> Command[list[Times]]:
    """How long messages waited and were worked on, of what finished within the last seconds."""
    params = {"seconds": seconds, "sample": sample}
    return Command(
        _text("recent_times"),
        params,
        lambda rows: [Times(queue, tuple(w), tuple(worked)) for queue, w, worked in rows],
    )


def counters() -> Command[tuple[int, int]]:
    """The last id that was given out, and how often a rescan found a message."""
    return Command(_text("counters"), {}, lambda rows: (rows[0][0], rows[0][1]))


def dead_errors(queue: str | None = None, sample: int = SAMPLE) -> Command[list[DeadError]]:
    """What the newest dead letters died of, of one queue or of all."""
    params = {"queue": check.optional_text("queue", queue), "sample": sample}

    def decode(rows: Rows) -> list[DeadError]:
        return [DeadError(*_in_utc(row)) for row in rows]

    return Command(_DEAD_ERRORS, params, decode)


def overdue(most: int = 1000) -> Command[int]:
    """How many waiting messages have outlived their time; counted up to `most`."""
    return Command(_OVERDUE, {"most": most}, scalar)


def heartbeats() -> Command[list[Heartbeat]]:
    """The workers that were seen within a day, by name."""

    def decode(rows: Rows) -> list[Heartbeat]:
        return [Heartbeat(*_in_utc([*row[:-1], decode_json(row[-1])])) for row in rows]

    return Command(_text("heartbeats"), {}, decode)


def horizon() -> Command[list[HorizonHolder]]:
    """Who holds the oldest snapshots and transaction ids, the oldest first."""

    def decode(rows: Rows) -> list[HorizonHolder]:
        return [HorizonHolder(*_in_utc(row)) for row in rows]

    return Command(_text("horizon"), {}, decode)


def server() -> Command[dict[str, Any]]:
    """The database server: its version, and the settings that matter to a queue."""
    names = (
        "version_number",
        "version",
        "database",
        "username",
        "sees_all_sessions",
        "read_only",
        "settings",
    )
    return Command(_text("server"), {}, lambda rows: dict(zip(names, rows[0], strict=True)))


def storage() -> Command[dict[str, Any]]:
    """What the tables hold on disk: the ring, the slots of history, the rest."""
    return Command(_text("storage"), {}, lambda rows: decode_json(rows[0][0]))


@cache
def _text(name: str) -> str:
    return files("penstock").joinpath("sql", "insights", f"{name}.sql").read_text("utf-8")


def _in_utc(row: Sequence[Any]) -> list[Any]:
    return [utc(value) if isinstance(value, datetime) else value for value in row]
