"""A lake whose tables are Iceberg tables. PyIceberg writes the metadata; Spark needs no jar.

A table has the files that the ledger has. Its property `penstock.version` is the last step that
changed it, so that a step is committed once. Files have no field ids and lack the columns of their
partition: the name mapping of the table and the values in its manifests stand for them. Manifests
have the ranges of ids and times, and no values of other columns, so that nothing of a payload
is left in them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import LakeError, translated
from penstock.lake import columns
from penstock.lake.layout import LakeTable, partition_values
from penstock.lake.storage.filesystem import Storage
from penstock.lake.storage.iceberg_catalog import open_catalog
from penstock.lake.storage.ledger import DataFile, State
from penstock.lake.storage.table_format import (
    FindTable,
    difference_of,
    move_into_place,
    touched_tables,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.snapshots import Snapshot

_VERSION: Final = "penstock.version"
_ATTEMPTS: Final = 5
_PROPERTIES: Final = {
    "format-version": "2",
    # Each commit removes old table metadata, so that a table does not grow without rows.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # Two processes may publish the same step. Only a new read of the table shows which was first.
    "commit.retry.num-retries": "0",
}


class IcebergFormat:
    """Replaced files stay until `compact` deletes them, for the time travel of readers."""

    def __init__(
        self,
        storage: Storage,
        find_table: FindTable,
        lake: str,
        address: str | None = None,
        dsn: str | None = None,
    ) -> None:
        self._storage = storage
        self._find_table = find_table
        self._namespace = lake
        self._address = address
        self._dsn = dsn

    @cached_property
    def _catalog(self) -> Catalog:
        """Opened by the first step that is published. Readers of the lake do not need it."""
        catalog = open_catalog(self._storage, self._address, self._dsn)
        catalog.create_namespace_if_not_exists(self._namespace)
        return catalog

    def publish(self, state: State) -> None:
        entry = state.head
        if entry is None:
            return
        move_into_place(self._storage, entry)
        with translated():
            for name in touched_tables(entry):
                self._commit(self._find_table(name), state)
        self._storage.remove(entry.staging)

    def clear(self, table: LakeTable, settle: Callable[[], State], hours: int) -> int:
        """Expires snapshots, and deletes files that only they had.

        Data files are listed before the ledger is read. So a file that a step moves here at the
        same time is in the ledger, or is not in the list.
        """
        there = [path for path, _ in self._storage.data_files(table.path)]
        known = settle().files
        with translated():
            iceberg = self._load(table)
            if iceberg is None:
                return 0
            before = _metadata_files(iceberg)
            oldest = datetime.now(UTC) - timedelta(hours=hours)
            expired = _expired(iceberg, oldest)
            if expired:
                iceberg.maintenance.expire_snapshots().by_ids(expired).commit()
                iceberg.refresh()
            used = {file.file_path for file in _data_files(iceberg)}
            for address in before - _metadata_files(iceberg):
                iceberg.io.delete(address)
        gone = [
            path
            for path in there
            if path.endswith(".parquet")
            and path not in known
            and self._storage.address(path) not in used
        ]
        for path in gone:
            self._storage.remove(path)
        return len(gone)

    def difference(self, table: LakeTable, state: State) -> str | None:
        with translated():
            try:
                listed = self._listed(self._load(table))
            except _unreadable():
                return "has Iceberg metadata that cannot be read"
        return difference_of(listed, [file.path for file in state.of(table)])

    def restore(self, table: LakeTable, state: State, quarantine: str) -> None:
        from pyiceberg.exceptions import NoSuchTableError

        with translated():
            with contextlib.suppress(NoSuchTableError):
                self._catalog.drop_table(self._identifier(table))
            metadata = f"{table.path}/metadata"
            if self._storage.exists(metadata):
                self._storage.move(metadata, f"{quarantine}/{metadata}")
            self._commit(table, state)

    def drop(self, table: LakeTable) -> None:
        with translated():
            if self._load(table) is not None:
                self._catalog.drop_table(self._identifier(table))
        self._storage.remove(table.path)

    def _identifier(self, table: LakeTable) -> tuple[str, ...]:
        return (*self._namespace.split("."), table.view)

    def _load(self, table: LakeTable) -> Table | None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(self._identifier(table))
        except NoSuchTableError:
            return None

    def _commit(self, table: LakeTable, state: State) -> None:
        """Brings one table to a state, once, even if another process does the same."""
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        for _ in range(_ATTEMPTS):
            try:
                iceberg = self._load(table)
            except _unreadable() as error:
                raise LakeError(
                    f"the Iceberg metadata of {table.path} cannot be read: {error}",
                    hint="Run `penstock lake repair`. It writes them from the ledger again.",
                ) from error
            if iceberg is not None and _version(iceberg) >= state.version:
                return
            try:
                self._try_commit(table, iceberg, state)
            except (CommitFailedException, TableAlreadyExistsError):
                continue
            return
        raise LakeError(
            f"other programs keep changing the Iceberg table {'.'.join(self._identifier(table))}",
            hint="Only Penstock may write the tables of a lake. Stop the other programs, and "
            "run it again.",
        )

    def _try_commit(self, table: LakeTable, iceberg: Table | None, state: State) -> None:
        added, removed = self._changes(table, iceberg, state)
        if iceberg is None:
            transaction = self._creation(table)
        else:
            transaction = iceberg.transaction()
            # Adds a column to the table of an older lake. It is null in existing rows.
            with transaction.update_schema() as schema:
                schema.union_by_name(columns.arrow(table))
        update = transaction.update_snapshot(snapshot_properties={_VERSION: str(state.version)})
        with update.overwrite() if removed else update.merge_append() as snapshot:
            for file in added:
                snapshot.append_data_file(self._data_file(table, transaction, file))
            for path in removed:
                gone = DataFile(path, 0, 0)
                snapshot.delete_data_file(self._data_file(table, transaction, gone))
        transaction.set_properties({_VERSION: str(state.version)})
        transaction.commit_transaction()

    def _creation(self, table: LakeTable) -> Transaction:
        """A transaction that creates the table: readers never see it without its first rows."""
        transaction = self._catalog.create_table_transaction(
            self._identifier(table),
            columns.arrow(table),
            location=self._storage.address(table.path),
            properties=_PROPERTIES,
        )
        with transaction.update_spec() as spec:
            for name in table.partitions:
                spec.add_identity(name)
        mapping = transaction.table_metadata.schema().name_mapping
        transaction.set_properties({"schema.name-mapping.default": mapping.model_dump_json()})
        return transaction

    def _changes(
        self, table: LakeTable, iceberg: Table | None, state: State
    ) -> tuple[list[DataFile], Collection[str]]:
        """The files to add and to remove.

        They are those of the last step, if the table has as many files as the ledger had before
        it. A catalog that is new, or was restored from a backup, gets every difference.
        """
        entry = state.head
        files = {file.path: file for file in state.of(table)}
        if entry is not None and iceberg is not None:
            added = [file for file in entry.add if file.table == table.path]
            removed = [path for path in entry.remove if path.startswith(f"{table.path}/")]
            if _file_count(iceberg) == len(files) - len(added) + len(removed):
                return added, removed
        present = set(self._listed(iceberg))
        missing = [file for path, file in files.items() if path not in present]
        return missing, present - files.keys()

    def _listed(self, iceberg: Table | None) -> list[str]:
        """The files that a reader of the table finds."""
        prefix = f"{self._storage.address('')}/"
        tasks = iceberg.scan().plan_files() if iceberg is not None else ()
        return [task.file.file_path.removeprefix(prefix) for task in tasks]

    def _data_file(self, table: LakeTable, transaction: Transaction, file: DataFile) -> IcebergFile:
        from pyiceberg.manifest import DataFile as IcebergFile
        from pyiceberg.manifest import DataFileContent, FileFormat

        lower, upper = _bounds(table, transaction, file)
        found = IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._storage.address(file.path),
            file_format=FileFormat.PARQUET,
            partition=_partition(transaction, file.path),
            record_count=file.rows,
            file_size_in_bytes=file.bytes,
            lower_bounds=lower,
            upper_bounds=upper,
        )
        found.spec_id = transaction.table_metadata.default_spec_id
        return found


def _unreadable() -> tuple[type[Exception], ...]:
    """The errors of a missing or damaged metadata file."""
    from pyiceberg.exceptions import ValidationError

    return (ValidationError, OSError, ValueError, KeyError, TypeError, EOFError, AssertionError)


def _version(iceberg: Table) -> int:
    return int(iceberg.properties.get(_VERSION, 0))


def _file_count(iceberg: Table) -> int:
    snapshot = iceberg.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    return int(snapshot.summary["total-data-files"] or 0)


def _partition(transaction: Transaction, path: str) -> Any:
    from pyiceberg.typedef import Record
    from pyiceberg.types import DateType
    from pyiceberg.utils.datetime import date_str_to_days

    values = partition_values(path)
    metadata = transaction.table_metadata
    schema = metadata.schema()
    return Record(
        *(
            date_str_to_days(values[field.name])
            if isinstance(schema.find_type(field.source_id), DateType)
            else values[field.name]
            for field in metadata.spec().fields
        )
    )


def _bounds(
    table: LakeTable, transaction: Transaction, file: DataFile
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """The ranges that let a reader skip a file."""
    from pyiceberg.conversions import to_bytes
    from pyiceberg.types import PrimitiveType

    schema = transaction.table_metadata.schema()
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for name, low, high in (
        (table.id_column, file.id_min, file.id_max),
        (table.time_column, file.at_min, file.at_max),
    ):
        if name is not None and low is not None and high is not None:
            field = schema.find_field(name)
            if isinstance(field.field_type, PrimitiveType):
                lower[field.field_id] = to_bytes(field.field_type, low)
                upper[field.field_id] = to_bytes(field.field_type, high)
    return lower, upper


def _expired(iceberg: Table, oldest: datetime) -> list[int]:
    """The snapshots before a moment, except the current one."""
    current = iceberg.metadata.current_snapshot_id
    return [
        snapshot.snapshot_id
        for snapshot in iceberg.metadata.snapshots
        if snapshot.snapshot_id != current and snapshot.timestamp_ms <= oldest.timestamp() * 1000
    ]


def _manifests(iceberg: Table) -> Iterable[tuple[Snapshot, Any]]:
    for snapshot in iceberg.metadata.snapshots:
        for manifest in snapshot.manifests(iceberg.io):
            yield snapshot, manifest


def _metadata_files(iceberg: Table) -> set[str]:
    """The lists of manifests, and the manifests, of all snapshots."""
    lists = {snapshot.manifest_list for snapshot in iceberg.metadata.snapshots}
    return lists | {manifest.manifest_path for _, manifest in _manifests(iceberg)}


def _data_files(iceberg: Table) -> Iterable[IcebergFile]:
    seen: set[str] = set()
    for _, manifest in _manifests(iceberg):
        if manifest.manifest_path in seen:
            continue
        seen.add(manifest.manifest_path)
        for entry in manifest.fetch_manifest_entry(iceberg.io, discard_deleted=True):
            yield entry.data_file
