"""History that has landed may go from PostgreSQL, and never what a lake lacks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from penstock.errors import LakeError
from penstock.lake.lake import Lake
from penstock.lake.options import Service
from penstock.lake.registry import Registry
from penstock.lake.verify import verify


@dataclass(frozen=True, slots=True)
class Dropped:
    """Slots of history, each of about a day, and the bytes of disk they took."""

    slots: int
    bytes: int


def drop_landed(
    lake: Lake, registry: Registry, service: Service, keep: timedelta, *, turn: bool = False
) -> Dropped:
    different = [each for each in verify(lake, registry, service) if not each.agrees]
    if different:
        first = different[0]
        raise LakeError(
            f"the lake and PostgreSQL differ in {len(different)} days and queues, such as "
            f"{first.day} of {first.queue}: {first.postgres.rows} rows and {first.lake.rows}",
            hint="Nothing was dropped. `penstock lake verify` shows them all.",
        )
    rows = registry.call("select slots, bytes from penstock.drop_landed(%s, %s)", keep, turn)
    return Dropped(*rows[0])
