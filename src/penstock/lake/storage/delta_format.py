"""A lake whose tables are Delta tables. delta-rs writes the log, so Spark needs no further jar."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.lake import columns
from penstock.lake.layout import LakeTable, partition_values
from penstock.lake.storage.filesystem import Storage
from penstock.lake.storage.ledger import Entry, State
from penstock.lake.storage.object_store import delta_options
from penstock.lake.storage.table_format import (
    FindTable,
    move_into_place,
    table_of,
    touched_tables,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema

# The name under which a table's log says which step of the ledger it has.
_APP: Final = "penstock"


class DeltaFormat:
    """The files that were replaced stay until `compact` clears them: Delta's readers go back."""

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
            self._commit(self._find_table(name), entry)
        self._storage.remove(entry.staging)

    def clear(self, table: LakeTable, settle: Callable[[], State], hours: int) -> int:
        from deltalake import DeltaTable

        address = delta_address(self._storage, table)
        if not DeltaTable.is_deltatable(address, self._options):
            return 0
        gone = DeltaTable(address, storage_options=self._options).vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False
        )
        return len(gone)

    def drop(self, table: LakeTable) -> None:
        self._storage.remove(table.path)

    def _commit(self, table: LakeTable, entry: Entry) -> None:
        from deltalake import CommitProperties, DeltaTable, Schema, Transaction
        from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

        address = delta_address(self._storage, table)
        adds = [
            AddAction(
                path=_within(file.path, table),
                size=file.bytes,
                partition_values=partition_values(file.path),
                modification_time=int(time.time() * 1000),
                data_change=entry.kind != "compact",
                stats=json.dumps({"numRecords": file.rows}),
            )
            for file in entry.add
            if file.table == table.path
        ]
        removes = [
            RemoveAction(
                path=_within(path, table),
                deletion_timestamp=int(time.time() * 1000),
                data_change=entry.kind != "compact",
            )
            for path in entry.remove
            if table_of(path) == table.path
        ]
        schema = Schema.from_arrow(columns.arrow(table))
        step = CommitProperties(app_transactions=[Transaction(app_id=_APP, version=entry.version)])
        if not DeltaTable.is_deltatable(address, self._options):
            create_table_with_add_actions(
                address,
                schema,
                adds,
                partition_by=list(table.partitions),
                storage_options=self._options,
                commit_properties=step,
            )
            return
        delta = DeltaTable(address, storage_options=self._options)
        if (delta.transaction_version(_APP) or 0) >= entry.version:
            return
        _add_columns(delta, schema)
        delta.create_write_transaction(
            [*adds, *removes],
            "append",
            schema,
            partition_by=list(table.partitions),
            commit_properties=step,
        )


def _add_columns(delta: DeltaTable, schema: Schema) -> None:
    """A lake made before a column was added gets it now; what is there reads as null."""
    known = {field.name for field in delta.schema().fields}
    if missing := [field for field in schema.fields if field.name not in known]:
        delta.alter.add_columns(missing)


def delta_address(storage: Storage, table: LakeTable) -> str:
    return storage.address(table.path).replace("s3a://", "s3://", 1)


def _within(path: str, table: LakeTable) -> str:
    return path.removeprefix(f"{table.path}/")
