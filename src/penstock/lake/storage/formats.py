"""The formats of a lake, and the format of a new lake.

Delta is the default. A reader of a Delta table sees whole steps. A reader that lists Parquet files
does not. Delta needs only the path of the table, and no package beyond those of Spark. Iceberg
needs a catalog, and a release of Iceberg that supports the version of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from penstock.errors import ConfigurationError
from penstock.lake.layout import TABLES, LakeTable
from penstock.lake.storage.filesystem import Storage
from penstock.lake.storage.ledger import State
from penstock.lake.storage.table_format import FindTable, TableFormat, move_into_place

PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (DELTA, ICEBERG, PARQUET)
DEFAULT_FORMAT: Final = DELTA
INSTALL_ICEBERG: Final = 'Install it with: pip install "penstock[iceberg]"'
# Addresses that delta-rs and PyIceberg can reach. They do not use Hadoop's file systems.
_SCHEMES: Final = {
    DELTA: ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs"),
    ICEBERG: ("s3", "s3a", "gs", "abfs", "abfss", "hdfs"),
}


def check_format(format: str, root: str, catalog: str | None = None) -> None:
    """Raises ConfigurationError if a lake cannot be created like this. Writes nothing."""
    if format == ICEBERG and find_spec("pyiceberg") is None:
        raise ConfigurationError("PyIceberg is not installed", hint=INSTALL_ICEBERG)
    scheme = root.partition("://")[0] if "://" in root else "file"
    known = _SCHEMES.get(format)
    if known is not None and scheme not in (*known, "file"):
        raise ConfigurationError(
            f"a lake in the format {format} cannot be at {root}",
            hint=f"It can be at a local path or at {', '.join(known)}. Elsewhere, use "
            "--format parquet.",
        )
    if catalog is not None and format != ICEBERG:
        raise ConfigurationError(
            f"a lake in the format {format} has no catalog",
            hint="Leave --catalog out, or use --format iceberg.",
        )
    if catalog is not None and urlsplit(catalog).scheme not in ("http", "https"):
        raise ConfigurationError(
            f"{catalog} is not the address of a REST catalog",
            hint="Write it as https://host/path. Without --catalog, the catalog is in PostgreSQL.",
        )


def open_format(
    format: str,
    storage: Storage,
    find_table: FindTable = TABLES.__getitem__,
    name: str = "",
    catalog: str | None = None,
    dsn: str | None = None,
) -> TableFormat:
    """The format of a lake.

    `find_table` returns the table of a path such as `silver/messages`. `name` is the lake's,
    `catalog` the address of a REST catalog, `dsn` the database.
    """
    if format == DELTA:
        from penstock.lake.storage.delta_format import DeltaFormat

        return DeltaFormat(storage, find_table)
    if format == ICEBERG:
        from penstock.lake.storage.iceberg_format import IcebergFormat

        return IcebergFormat(storage, find_table, name, catalog, dsn)
    return ParquetFormat(storage)


class ParquetFormat:
    """Directories of files. Readers list them, and may see a part of a step."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def publish(self, state: State) -> None:
        entry = state.head
        if entry is None:
            return
        move_into_place(self._storage, entry)
        for path in entry.remove:
            self._storage.remove(path)
        self._storage.remove(entry.staging)

    def clear(self, table: LakeTable, settle: Callable[[], State], hours: int) -> int:
        """Nothing, because replaced files are deleted already."""
        return 0

    def difference(self, table: LakeTable, state: State) -> None:
        """None: readers list the files themselves."""

    def restore(self, table: LakeTable, state: State, quarantine: str) -> None:
        """Nothing: see difference."""

    def drop(self, table: LakeTable) -> None:
        self._storage.remove(table.path)
