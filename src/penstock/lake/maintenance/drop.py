"""Drops history from PostgreSQL that every lake has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from penstock.errors import DamagedFileError, LakeError
from penstock.lake.lake import Lake
from penstock.lake.maintenance.verify import verify
from penstock.lake.registry import Registry
from penstock.spark.options import Service


@dataclass(frozen=True, slots=True)
class Dropped:
    """The dropped slots of history, each of about a day, and their size on disk."""

    slots: int
    bytes: int


def drop_landed(
    lake: Lake, registry: Registry, service: Service, keep: timedelta, *, turn: bool = False
) -> Dropped:
    found = verify(lake, registry, service)
    if found.damaged:
        first = found.damaged[0]
        raise DamagedFileError(
            f"{len(found.damaged)} files of the lake are damaged, such as {first.path}, "
            f"which {first.reason}",
            hint="Nothing was dropped. Run `penstock lake repair` first.",
            path=first.path,
        )
    if different := [each for each in found.compared if not each.agrees]:
        worst = different[0]
        raise LakeError(
            f"{worst.table} differs from {worst.against} in {len(different)} days and queues, such "
            f"as {worst.day} of {worst.queue}: {worst.found.rows} rows instead of "
            f"{worst.expected.rows}",
            hint="Nothing was dropped. `penstock lake verify` shows them all.",
        )
    rows = registry.call("select slots, bytes from penstock.drop_landed(%s, %s)", keep, turn)
    return Dropped(*rows[0])
