"""Finds data files that are missing or changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from penstock.errors import DamagedFileError
from penstock.lake.lake import Lake
from penstock.lake.storage.checksums import file_checksum, spark_checksums
from penstock.lake.storage.filesystem import LocalStorage
from penstock.lake.storage.ledger import DataFile, State

REPAIR: Final = (
    "Run `penstock lake repair`: it moves damaged files aside and restores what can be restored."
)


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged file. `rows` is the number of its rows."""

    path: str
    table: str
    day: str
    queue: str | None
    rows: int
    reason: str


def find_damage(lake: Lake, files: Collection[DataFile] | None = None) -> list[Damage]:
    """The damaged files among these, or in the whole lake."""
    state = lake.ledger.settle()
    chosen = list(state.files.values() if files is None else files)
    sizes = _sizes(lake, chosen, everything=files is None)
    whole = [file for file in chosen if sizes.get(file.path) == file.bytes]
    checksums = _checksums(lake, [file for file in whole if file.sha256 is not None])
    found = []
    for file in chosen:
        if reason := _reason(file, sizes.get(file.path), checksums.get(file.path)):
            found.append(Damage(file.path, file.table, file.day, file.queue, file.rows, reason))
    return sorted(found, key=lambda damage: damage.path)


def find_differences(lake: Lake, state: State) -> list[Damage]:
    """The tables whose readers find other files than those in the ledger."""
    found = []
    for table in lake.tables():
        if reason := lake.format.difference(table, state):
            found.append(Damage(table.path, table.path, "", None, 0, reason))
    return found


def require_intact(lake: Lake, files: Collection[DataFile]) -> None:
    """Raises DamagedFileError if one of these files is damaged."""
    if damages := find_damage(lake, files):
        first = damages[0]
        others = f", and {len(damages) - 1} more are damaged" if len(damages) > 1 else ""
        raise DamagedFileError(f"{first.path} {first.reason}{others}", hint=REPAIR, path=first.path)


def _reason(file: DataFile, size: int | None, checksum: str | None) -> str | None:
    if size is None:
        return "is missing"
    if size != file.bytes:
        return f"has {size:,} bytes instead of {file.bytes:,}"
    if file.sha256 is not None and checksum != file.sha256:
        return "differs from the content that was written"
    return None


def _sizes(lake: Lake, files: Sequence[DataFile], *, everything: bool) -> dict[str, int]:
    if everything:
        folders = {file.table for file in files}
    else:
        folders = {file.path.rpartition("/")[0] for file in files}
    return {path: size for folder in folders for path, size in lake.storage.data_files(folder)}


def _checksums(lake: Lake, files: Sequence[DataFile]) -> dict[str, str]:
    paths = [file.path for file in files]
    if not isinstance(lake.storage, LocalStorage):
        return spark_checksums(lake.spark, lake.storage, "", paths)
    places = [lake.storage.directory / path for path in paths]
    with ThreadPoolExecutor() as threads:  # hashing releases the GIL
        return dict(zip(paths, threads.map(file_checksum, places), strict=True))
