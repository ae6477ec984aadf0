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
class ServicePosition:
    """The rows that `seen` sees were delivered, and those up to `until` that only `window` sees.

    `database` is None before the first batch. Then `seen` is still as `initial` says.
    """

    database: str | None
    seen: Snapshot
    window: Snapshot | None = None
    until: Position = BEGINNING

    def reached(self, window: Snapshot) -> ServicePosition:
        return ServicePosition(self.database, window)

    def partway(self, window: Snapshot, until: Position) -> ServicePosition:
        return replace(self, window=window, until=until)

    def as_json(self) -> dict[str, Any]:
        position: dict[str, Any] = {"database": self.database, "seen": str(self.seen)}
        if self.window is not None:
            position |= {"window": str(self.window), "xid": self.until.xid, "id": self.until.id}
        return position

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> ServicePosition:
        window = found.get("window")
        return cls(
            found["database"],
            Snapshot.parse(found["seen"]),
            None if window is None else Snapshot.parse(window),
            BEGINNING if window is None else Position(found["xid"], found["id"]),
        )


UNTOUCHED: Final = ServicePosition(None, NOTHING)


@dataclass(frozen=True, slots=True)
class LogOffset:
    """A position for each service. A service that is missing has not been read yet."""

    table: str
    positions: dict[str, ServicePosition]

    def position(self, service: str) -> ServicePosition:
        return self.positions.get(service, UNTOUCHED)

    def as_json(self) -> dict[str, Any]:
        services = {name: position.as_json() for name, position in sorted(self.positions.items())}
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
        positions = {
            name: ServicePosition.from_json(position)
            for name, position in found["services"].items()
        }
        return cls(table, positions)


def check_same_database(
    service: str, position: ServicePosition, database: str, now: Snapshot
) -> None:
    """Transaction ids have a meaning on one server only, and only while they grow."""
    if position.database not in (None, database):
        raise ConfigurationError(
            f"the checkpoint belongs to database {position.database}, and service {service!r} is "
            f"now database {database}: it was moved, upgraded or restored from a dump",
            hint=START_ANEW,
        )
    if now.xmax < (position.window or position.seen).xmax:
        raise ConfigurationError(
            f"the database of service {service!r} is older than the checkpoint: "
            "it was restored from a backup, or a failover lost transactions",
            hint=START_ANEW,
        )
