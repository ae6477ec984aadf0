"""The position of a stream in a log, as Spark's checkpoint stores it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.errors import ConfigurationError
from penstock.spark.snapshot_diff import BEGINNING, NOTHING, Position, Snapshot

FORMAT: Final = 1
START_ANEW: Final = (
    "Use another checkpoint, and start from `initial`. Rows that are read twice have the same id."
)


@dataclass(frozen=True, slots=True)
class Place:
    """The rows that `seen` sees were delivered, and those up to `until` that only `window` sees.

    `database` is None before the first batch. Then `seen` is still as `initial` says.
    """

    database: str | None
    seen: Snapshot
    window: Snapshot | None = None
    until: Position = BEGINNING

    def reached(self, window: Snapshot) -> Place:
        return Place(self.database, window)

    def partway(self, window: Snapshot, until: Position) -> Place:
        return replace(self, window=window, until=until)

    def as_json(self) -> dict[str, Any]:
        place: dict[str, Any] = {"database": self.database, "seen": str(self.seen)}
        if self.window is not None:
            place |= {"window": str(self.window), "xid": self.until.xid, "id": self.until.id}
        return place

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Place:
        window = found.get("window")
        return cls(
            found["database"],
            Snapshot.parse(found["seen"]),
            None if window is None else Snapshot.parse(window),
            BEGINNING if window is None else Position(found["xid"], found["id"]),
        )


UNTOUCHED: Final = Place(None, NOTHING)


@dataclass(frozen=True, slots=True)
class LogOffset:
    """A position for each service. A service that is missing has not been read yet."""

    table: str
    places: dict[str, Place]

    def place(self, service: str) -> Place:
        return self.places.get(service, UNTOUCHED)

    def as_json(self) -> dict[str, Any]:
        services = {name: place.as_json() for name, place in sorted(self.places.items())}
        return {"format": FORMAT, "table": self.table, "services": services}

    @classmethod
    def from_json(cls, found: dict[str, Any], table: str) -> LogOffset:
        """Refuses offsets of another source, another table or a newer Penstock."""
        if found.get("format") != FORMAT or "table" not in found:
            raise ConfigurationError(
                "the checkpoint was written by another source or another version of Penstock",
                hint=START_ANEW,
            )
        if found["table"] != table:
            raise ConfigurationError(
                f"the checkpoint is of table {found['table']}, and the source reads {table}",
                hint=START_ANEW,
            )
        places = {name: Place.from_json(place) for name, place in found["services"].items()}
        return cls(table, places)


def check_same_database(service: str, place: Place, database: str, now: Snapshot) -> None:
    """Transaction ids have a meaning on one server only, and only while they grow."""
    if place.database not in (None, database):
        raise ConfigurationError(
            f"the checkpoint belongs to database {place.database}, and service {service!r} is now "
            f"database {database}: it was moved, upgraded or restored from a dump",
            hint=START_ANEW,
        )
    if now.xmax < (place.window or place.seen).xmax:
        raise ConfigurationError(
            f"the database of service {service!r} is older than the checkpoint: "
            "it was restored from a backup, or a failover lost transactions",
            hint=START_ANEW,
        )
