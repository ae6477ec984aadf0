"""How the files of a decided step become the table that others read: as Parquet, or as Delta.

Both may be done again after a crash in the middle. The ledger says what is in a table; a listing
of the directory shows the same for Parquet, and the Delta log for Delta.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.errors import ConfigurationError
from penstock.lake import columns
from penstock.lake.layout import TABLES, LakeTable, partition_values
from penstock.lake.storage.filesystem import Storage
from penstock.lake.storage.ledger import Entry

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema

PARQUET: Final = "parquet"
DELTA: Final = "delta"
FORMATS: Final = (PARQUET, DELTA)
# What delta-rs reaches by itself; the rest of Hadoop's file systems it does not know.
_DELTA_SCHEMES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs")


FindTable = Callable[[str], LakeTable]


def publisher(
    format: str, storage: Storage, find_table: FindTable = TABLES.__getitem__
) -> Callable[[Entry], None]:
    """`find_table` returns the table of a path such as `silver/messages`."""
    if format == DELTA:
        return lambda entry: _publish_delta(storage, entry, find_table)
    return lambda entry: _publish_parquet(storage, entry)


def check_format(format: str, root: str) -> None:
    scheme = root.partition("://")[0] if "://" in root else "file"
    if format == DELTA and scheme not in (*_DELTA_SCHEMES, "file"):
        raise ConfigurationError(
            f"a Delta lake cannot be at {root}",
            hint=f"Delta reaches local paths and {', '.join(_DELTA_SCHEMES)}; "
            "use the Parquet format elsewhere.",
        )


def _publish_parquet(storage: Storage, entry: Entry) -> None:
    _move(storage, entry)
    for path in entry.remove:
        storage.remove(path)
    storage.remove(entry.staging)


def _publish_delta(storage: Storage, entry: Entry, find_table: FindTable) -> None:
    """The files that were replaced stay until `compact` clears them: Delta's readers go back."""
    _move(storage, entry)
    touched = {file.table for file in entry.add} | {_table_of(path) for path in entry.remove}
    for name in sorted(touched):
        _commit_delta(storage, find_table(name), entry)
    storage.remove(entry.staging)


def _move(storage: Storage, entry: Entry) -> None:
    for file in entry.add:
        # A file that is in neither place was deleted by hand: `verify` names it, `repair` restores
        # it, and neither could if the last step had to be whole before anything else.
        with contextlib.suppress(FileNotFoundError):
            storage.move(f"{entry.staging}/{file.path}", file.path)


def _commit_delta(storage: Storage, table: LakeTable, entry: Entry) -> None:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

    address = delta_address(storage, table)
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
        if _table_of(path) == table.path
    ]
    schema = Schema.from_arrow(columns.arrow(table))
    step = CommitProperties(app_transactions=[Transaction(app_id=_APP, version=entry.version)])
    if not DeltaTable.is_deltatable(address):
        create_table_with_add_actions(
            address, schema, adds, partition_by=list(table.partitions), commit_properties=step
        )
        return
    delta = DeltaTable(address)
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


_APP: Final = "penstock"


def _add_columns(delta: DeltaTable, schema: Schema) -> None:
    """A lake made before a column was added gets it now; what is there reads as null."""
    known = {field.name for field in delta.schema().fields}
    if missing := [field for field in schema.fields if field.name not in known]:
        delta.alter.add_columns(missing)


def clear_delta(storage: Storage, table: LakeTable, hours: int) -> int:
    """Deletes files that were replaced so many hours ago. Returns how many."""
    from deltalake import DeltaTable

    address = delta_address(storage, table)
    if not DeltaTable.is_deltatable(address):
        return 0
    gone = DeltaTable(address).vacuum(
        retention_hours=hours, dry_run=False, enforce_retention_duration=False
    )
    return len(gone)


def delta_address(storage: Storage, table: LakeTable) -> str:
    return storage.address(table.path).replace("s3a://", "s3://", 1)


def _table_of(path: str) -> str:
    return "/".join(path.split("/")[:2])


def _within(path: str, table: LakeTable) -> str:
    return path.removeprefix(f"{table.path}/")
