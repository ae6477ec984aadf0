"""The ledger of a lake. It alone decides which files the lake has.

Each step (landing a batch, refreshing silver and gold, compacting) writes its files to a staging
directory, and then one ledger entry. The entry names these files, the files that they replace, and
the position of the source. An entry is written as a whole or not at all, and each number can be
taken only once. So a step takes effect for all of its tables or for none, even if the process or
the machine is killed. The files are moved to their places afterwards. That can be repeated, and the
next writer does so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from penstock.errors import LakeConflictError, LakeError
from penstock.lake.layout import BRONZE_HISTORY, LEDGER, LakeTable, partition_values
from penstock.lake.storage.filesystem import Storage

CHECKPOINT_EVERY: Final = 20
_DIGITS: Final = 20
_CHECKPOINT: Final = ".checkpoint.json"
# The errors of decoding a damaged file.
_DAMAGED: Final = (ValueError, TypeError, KeyError, AttributeError)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table. The ranges are of its ids and its times (in microseconds).

    `version` is the step that added it; `epoch` is the number of `begin` steps before it. `sha256`
    is None in files that were written before checksums were kept.
    """

    path: str
    rows: int
    bytes: int
    id_min: int | None = None
    id_max: int | None = None
    at_min: int | None = None
    at_max: int | None = None
    version: int = 0
    epoch: int = 0
    sha256: str | None = None
    # Whether `repair` fetched its rows again. Silver may have them already.
    refetched: bool = False

    @property
    def table(self) -> str:
        return "/".join(self.path.split("/")[:2])

    @property
    def layer(self) -> str:
        return self.path.partition("/")[0]

    @property
    def day(self) -> str:
        return partition_values(self.path)["day"]

    @property
    def queue(self) -> str | None:
        return partition_values(self.path).get("queue")


@dataclass(frozen=True, slots=True)
class Entry:
    """One step. `expects` and `offsets` are the positions of the source before and after it."""

    kind: str
    staging: str
    add: tuple[DataFile, ...] = ()
    remove: tuple[str, ...] = ()
    expects: dict[str, Any] | None = None
    offsets: dict[str, Any] | None = None
    consumed: tuple[str, ...] = ()
    floors: dict[str, str] = field(default_factory=dict)
    at: str = ""
    version: int = 0
    # Information about the step that stays after its entry is deleted.
    record: dict[str, Any] | None = None
    # Tables that a project declares, by path: see declarations.py. None withdraws one.
    declare: dict[str, Any] = field(default_factory=dict)
    # By path, the days of declared tables to be recomputed, and those that this step recomputed.
    stale: dict[str, list[str]] = field(default_factory=dict)
    recomputed: dict[str, list[str]] = field(default_factory=dict)

    def as_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Entry:
        found = json.loads(text)
        found["add"] = tuple(DataFile(**file) for file in found["add"])
        found["remove"], found["consumed"] = tuple(found["remove"]), tuple(found["consumed"])
        return cls(**found)


@dataclass(frozen=True, slots=True)
class State:
    """The sum of all entries up to one. `pending` are the bronze files that silver lacks."""

    version: int = 0
    files: dict[str, DataFile] = field(default_factory=dict)
    offsets: dict[str, Any] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    # By layer, the first day that is kept.
    floors: dict[str, str] = field(default_factory=dict)
    landed_rows: int = 0
    epoch: int = 0
    head: Entry | None = None
    # The erasures of `forget`: their times, rows, and the checksums of their conditions.
    erasures: tuple[dict[str, Any], ...] = ()
    # Tables that a project declares, and the days of them that are not computed yet, by path.
    declared: dict[str, Any] = field(default_factory=dict)
    stale: dict[str, list[str]] = field(default_factory=dict)

    def of(self, table: LakeTable) -> list[DataFile]:
        return [file for file in self.files.values() if file.table == table.path]

    def pending_of(self, table: LakeTable) -> list[DataFile]:
        return [self.files[path] for path in sorted(self.pending) if self._is(path, table)]

    @staticmethod
    def _is(path: str, table: LakeTable) -> bool:
        return path.startswith(f"{table.path}/")

    def after(self, entry: Entry) -> State:
        files = dict(self.files)
        for path in entry.remove:
            del files[path]
        landing = entry.kind == "land"
        # Rows that `repair` fetched again belong to the same log as landed rows.
        from_log = entry.kind in ("land", "repair")
        added = {
            file.path: replace(
                file, version=entry.version, epoch=self.epoch if from_log else file.epoch
            )
            for file in entry.add
        }
        pending = self.pending - set(entry.consumed) - set(entry.remove)
        if from_log:
            pending |= added.keys()
        return State(
            version=entry.version,
            files=files | added,
            offsets=self.offsets if entry.offsets is None else entry.offsets,
            pending=frozenset(pending),
            floors=self.floors | entry.floors,
            landed_rows=self.landed_rows + landing * sum(file.rows for file in entry.add),
            epoch=self.epoch + (entry.kind == "begin"),
            head=entry,
            erasures=self.erasures
            if entry.record is None
            else (*self.erasures, {"at": entry.at, **entry.record}),
            declared={k: v for k, v in (self.declared | entry.declare).items() if v is not None},
            stale=self._stale_after(entry),
        )

    def _stale_after(self, entry: Entry) -> dict[str, list[str]]:
        merged = {path: set(days) for path, days in self.stale.items()}
        for path, days in entry.stale.items():
            merged.setdefault(path, set()).update(days)
        for path, days in entry.recomputed.items():
            merged.setdefault(path, set()).difference_update(days)
        withdrawn = {path for path, declared in entry.declare.items() if declared is None}
        return {path: sorted(d) for path, d in merged.items() if d and path not in withdrawn}

    def refuses(self, entry: Entry) -> str | None:
        """The step cannot be published, because another process was faster."""
        if entry.expects is not None and entry.expects != self.offsets:
            return "another run has landed the same messages meanwhile"
        gone = set(entry.remove) - self.files.keys() or set(entry.consumed) - self.pending
        if gone:
            return f"another run has replaced {len(gone)} of the files that this one read"
        return None

    def as_json(self) -> str:
        found = {
            "version": self.version,
            "files": [asdict(file) for file in self.files.values()],
            "offsets": self.offsets,
            "pending": sorted(self.pending),
            "floors": self.floors,
            "landed_rows": self.landed_rows,
            "epoch": self.epoch,
            "head": None if self.head is None else asdict(self.head),
            "erasures": self.erasures,
            "declared": self.declared,
            "stale": self.stale,
        }
        return json.dumps(found, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> State:
        found = json.loads(text)
        files = [DataFile(**file) for file in found["files"]]
        head = found["head"]
        return cls(
            version=found["version"],
            files={file.path: file for file in files},
            offsets=found["offsets"],
            pending=frozenset(found["pending"]),
            floors=found["floors"],
            landed_rows=found["landed_rows"],
            epoch=found["epoch"],
            head=None if head is None else Entry.from_json(json.dumps(head)),
            erasures=tuple(found.get("erasures", ())),
            declared=found.get("declared", {}),
            stale=found.get("stale", {}),
        )


Publish = Callable[[State], None]
Guard = Callable[[], AbstractContextManager[None]]


class Ledger:
    """The entries, as files. `publish` brings the files of the last entry to their places."""

    def __init__(self, storage: Storage, publish: Publish, guard: Guard = nullcontext) -> None:
        self._storage = storage
        self._publish = publish
        self._guard = guard
        self._state = State()
        self._published = -1

    def state(self) -> State:
        """The current state."""
        names = self._storage.names(LEDGER)
        newest = max(_versions(names), default=0)
        # A file of bronze gets to its place after the first entry.
        if newest == 0 and self._storage.names(BRONZE_HISTORY.layer):
            raise LakeError(
                f"the ledger of the lake at {self._storage.root} has no entries, but its directory "
                f"{BRONZE_HISTORY.layer} has files",
                hint="Restore its directory _ledger from a backup, or name another --path. "
                "Nothing was changed.",
            )
        if newest > self._state.version:
            self._state = self._read(names, newest)
        return self._state

    def settle(self) -> State:
        """The state. Files of the last step that were not moved yet are moved now."""
        state = self.state()
        if state.head is not None and state.version != self._published:
            self._publish(state)
            self._published = state.version
        return state

    def commit(self, entry: Entry) -> State:
        """Publishes the step after those of other processes, or raises the reason why not."""
        while True:
            with self._guard():
                state = self.settle()
                if reason := state.refuses(entry) or self._lacks_files(entry):
                    raise LakeConflictError(
                        reason,
                        hint="Nothing was changed. Run one process at a time on a lake.",
                    )
                entry = replace(entry, version=state.version + 1, at=_now())
                written = self._storage.write_new(_name(entry.version), entry.as_json())
            if written:
                break
        state = self.settle()
        if entry.version % CHECKPOINT_EVERY == 0:
            self._checkpoint(state)
        return state

    def _lacks_files(self, entry: Entry) -> str | None:
        """The step cannot be published, because a run that started meanwhile took it for dead."""
        if entry.add and not self._storage.exists(entry.staging):
            return "another run has started and removed the files of this step"
        return None

    def _read(self, names: Iterable[str], newest: int) -> State:
        found = {version for version in _versions(names, _CHECKPOINT) if version <= newest}
        state = self._state
        for version in sorted(found, reverse=True):
            if state.version >= version:
                break
            # The entries since the previous checkpoint are kept. They replace a damaged one.
            if checkpoint := self._read_checkpoint(version):
                state = checkpoint
                break
        for version in range(state.version + 1, newest + 1):
            state = state.after(self._read_entry(version))
        return state

    def _read_entry(self, version: int) -> Entry:
        try:
            if text := self._storage.read(_name(version)):
                return Entry.from_json(text)
        except _DAMAGED as error:
            raise LakeError(
                f"{self._storage.address(_name(version))} is damaged",
                hint="Restore this file from a backup of the lake. The ledger decides which files "
                "the lake has, so nothing was changed.",
            ) from error
        raise LakeError(
            f"the ledger of the lake at {self._storage.root} lacks entry {version}",
            hint="Files of the lake were removed. Restore its directory _ledger from a backup.",
        )

    def _read_checkpoint(self, version: int) -> State | None:
        """None if it is damaged."""
        try:
            text = self._storage.read(_name(version, _CHECKPOINT))
            return State.from_json(text) if text else None
        except _DAMAGED:
            return None

    def _checkpoint(self, state: State) -> None:
        """Writes a checkpoint, and removes the entries that the last two checkpoints contain."""
        self._storage.write_new(_name(state.version, _CHECKPOINT), state.as_json())
        names = self._storage.names(LEDGER)
        kept = sorted(_versions(names, _CHECKPOINT))[-2:]
        for version in _versions(names):
            if version < kept[0]:
                self._storage.remove(_name(version))
        for version in _versions(names, _CHECKPOINT):
            if version < kept[0]:
                self._storage.remove(_name(version, _CHECKPOINT))


def _name(version: int, ending: str = ".json") -> str:
    return f"{LEDGER}/{version:0{_DIGITS}d}{ending}"


def _versions(names: Iterable[str], ending: str = ".json") -> Iterator[int]:
    for name in names:
        number = name[:_DIGITS]
        if name[_DIGITS:] == ending and number.isdigit():
            yield int(number)


def _now() -> str:
    return datetime.now(UTC).isoformat()
