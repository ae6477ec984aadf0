"""A lake whose tables are Delta tables. delta-rs writes the log, so Spark needs no further jar."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from penstock.errors import LakeError
from penstock.lake import columns
from penstock.lake.layout import LakeTable, partition_values
from penstock.lake.storage.filesystem import Storage
from penstock.lake.storage.ledger import DataFile, Entry, State
from penstock.lake.storage.object_store import delta_options
from penstock.lake.storage.table_format import (
    FindTable,
    difference_of,
    move_into_place,
    table_of,
    touched_tables,
)

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, Schema
    from deltalake.transaction import AddAction

# The key under which a table's log stores the step of the ledger.
_APP: Final = "penstock"


class DeltaFormat:
    """Replaced files stay until `compact` deletes them, for the time travel of Delta's readers."""

    def __init__(self, storage: Storage, find_table: FindTable) -> None:
        self._storage = storage
        self._find_table = find_table
        self._options = delta_options(storage)

    def publish(self, state: State) -> None:
        entry = state.head
        if entry is None:
            return
        move_into_place(self._storage, entry)
        for name in touched_tables(entry):
            self._commit(self._find_table(name), state, entry)
        self._storage.remove(entry.staging)

    def clear(self, table: LakeTable, settle: Callable[[], State], hours: int) -> int:
        delta = self._open(table)
        if delta is None:
            return 0
        gone = delta.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
        return len(gone)

    def difference(self, table: LakeTable, state: State) -> str | None:
        try:
            delta = self._open(table)
        except LakeError:
            return "has a Delta log that cannot be read"
        listed = delta.file_uris() if delta is not None else []
        # The log escapes names of queues. No name of a file needs that.
        names = [address.rpartition("/")[2] for address in listed]
        return difference_of(names, [f.path.rpartition("/")[2] for f in state.of(table)])

    def restore(self, table: LakeTable, state: State, quarantine: str) -> None:
        log = f"{table.path}/_delta_log"
        if self._storage.exists(log):
            self._storage.move(log, f"{quarantine}/{log}")
        self._create(table, state)

    def drop(self, table: LakeTable) -> None:
        self._storage.remove(table.path)

    def _open(self, table: LakeTable) -> DeltaTable | None:
        """None if there is no log. Raises LakeError if it is damaged."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        address = delta_address(self._storage, table)
        if not DeltaTable.is_deltatable(address, self._options):
            return None
        try:
            return DeltaTable(address, storage_options=self._options)
        except DeltaError as error:
            reason = str(error).partition("\n")[0]
            raise LakeError(
                f"the Delta log of {table.path} cannot be read: {reason}",
                hint="Run `penstock lake repair`. It writes the log from the ledger again.",
            ) from error

    def _create(self, table: LakeTable, state: State) -> None:
        """A log with all files that the ledger has of the table."""
        from deltalake import Schema
        from deltalake.transaction import create_table_with_add_actions

        create_table_with_add_actions(
            delta_address(self._storage, table),
            Schema.from_arrow(columns.arrow(table)),
            _adds(table, state.of(table)),
            partition_by=list(table.partitions),
            storage_options=self._options,
            commit_properties=_step(state.version),
        )

    def _commit(self, table: LakeTable, state: State, entry: Entry) -> None:
        from deltalake import Schema
        from deltalake.transaction import RemoveAction

        delta = self._open(table)
        if delta is None:
            self._create(table, state)
            return
        if (delta.transaction_version(_APP) or 0) >= entry.version:
            return
        rows_change = entry.kind != "compact"
        added = [file for file in entry.add if file.table == table.path]
        removes = [
            RemoveAction(
                path=_within(path, table),
                deletion_timestamp=int(time.time() * 1000),
                data_change=rows_change,
            )
            for path in entry.remove
            if table_of(path) == table.path
        ]
        schema = Schema.from_arrow(columns.arrow(table))
        _add_columns(delta, schema)
        delta.create_write_transaction(
            [*_adds(table, added, rows_change), *removes],
            "append",
            schema,
            partition_by=list(table.partitions),
            commit_properties=_step(entry.version),
        )


def _adds(table: LakeTable, files: Iterable[DataFile], rows_change: bool = True) -> list[AddAction]:
    from deltalake.transaction import AddAction

    return [
        AddAction(
            path=_within(file.path, table),
            size=file.bytes,
            partition_values=partition_values(file.path),
            modification_time=int(time.time() * 1000),
            data_change=rows_change,
            stats=json.dumps({"numRecords": file.rows}),
        )
        for file in files
    ]


def _step(version: int) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(app_id=_APP, version=version)])


def _add_columns(delta: DeltaTable, schema: Schema) -> None:
    """Adds a column to the table of an older lake. It is null in existing rows."""
    known = {field.name for field in delta.schema().fields}
    if missing := [field for field in schema.fields if field.name not in known]:
        delta.alter.add_columns(missing)


def delta_address(storage: Storage, table: LakeTable) -> str:
    return storage.address(table.path).replace("s3a://", "s3://", 1)


def _within(path: str, table: LakeTable) -> str:
    return path.removeprefix(f"{table.path}/")
