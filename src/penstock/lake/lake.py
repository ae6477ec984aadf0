"""A lake: its settings, its state, and its tables as DataFrames."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import functions as sf

from penstock.errors import LakeError, LakeMismatchError, SchemaNewerError
from penstock.lake import columns
from penstock.lake.declarations import Declared
from penstock.lake.layout import LAKE_FILE, LAYERS, LEDGER, STAGING, TABLES, LakeTable
from penstock.lake.storage.filesystem import Storage, open_storage
from penstock.lake.storage.formats import DEFAULT_FORMAT, FORMATS, check_format, open_format
from penstock.lake.storage.ledger import DataFile, Entry, Guard, Ledger, State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.lake.project.project import Project


@dataclass(frozen=True, slots=True)
class About:
    """lake.json. `name` is the lake's name in PostgreSQL, which keeps history until it has landed.

    `catalog` is the address of the REST catalog of its Iceberg tables. None: PostgreSQL has them.
    """

    name: str
    format: str
    layout_version: int
    created_at: str
    catalog: str | None = None


class Lake:
    """Access to one lake, for the duration of a command."""

    def __init__(
        self,
        storage: Storage,
        about: About,
        spark: SparkSession | None,
        guard: Guard | None = None,
        dsn: str | None = None,
    ) -> None:
        self.storage = storage
        self.about = about
        self._spark = spark
        # Computes the gold tables that a project declares.
        self.project: Project | None = None
        self._declared: tuple[dict[str, Any], Declared] = ({}, Declared())
        self.format = open_format(about.format, storage, self.table, about.name, about.catalog, dsn)
        if storage.decides or guard is None:
            self.ledger = Ledger(storage, self.format.publish)
        else:
            self.ledger = Ledger(storage, self.format.publish, guard)

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            raise LakeError(
                "this needs a Spark session, but the lake was opened without one",
                hint="Pass one: Lake.open(root, spark).",
            )
        return self._spark

    @classmethod
    def open(
        cls,
        root: str,
        spark: SparkSession | None = None,
        guard: Guard | None = None,
        dsn: str | None = None,
    ) -> Lake:
        """Opens an existing lake. `dsn` is the database with its Iceberg catalog."""
        storage = open_storage(root, spark)
        about = _read_about(storage)
        if about is None:
            raise LakeError(
                f"there is no lake at {root}",
                hint="`penstock lake run` creates one at --path or PENSTOCK_LAKE.",
            )
        return cls(storage, about, spark, guard, dsn)

    @classmethod
    def open_or_create(
        cls,
        root: str,
        spark: SparkSession | None = None,
        *,
        format: str | None = None,
        name: str | None = None,
        catalog: str | None = None,
        guard: Guard | None = None,
        dsn: str | None = None,
    ) -> Lake:
        """Opens or creates a lake. The given settings must agree with those of an existing one."""
        storage = open_storage(root, spark)
        about = _read_about(storage)
        if about is None and storage.names(LEDGER):
            raise LakeError(
                f"the lake at {root} lacks its file {LAKE_FILE}",
                hint="Restore this file from a backup, or name another --path. "
                "Nothing was changed.",
            )
        if about is None:
            check_format(format or DEFAULT_FORMAT, root, catalog)
            about = About(
                name=name or f"lake-{uuid4().hex[:8]}",
                format=format or DEFAULT_FORMAT,
                layout_version=columns.LAYOUT_VERSION,
                created_at=datetime.now(UTC).isoformat(),
                catalog=catalog,
            )
            if not storage.write_new(LAKE_FILE, json.dumps(asdict(about), indent=2) + "\n"):
                return cls.open_or_create(
                    root, spark, format=format, name=name, catalog=catalog, guard=guard, dsn=dsn
                )
        for what, asked, found in (
            ("format", format, about.format),
            ("name", name, about.name),
            ("catalog", catalog, about.catalog),
        ):
            if asked is not None and asked != found:
                raise LakeMismatchError(
                    f"the lake at {root} has the {what} {found}, not {asked}",
                    hint=f"Omit --{what}, or name another --path.",
                )
        return cls(storage, about, spark, guard, dsn)

    def state(self) -> State:
        return self.ledger.state()

    def declared(self) -> Declared:
        """The tables that a project has declared."""
        found = self.state().declared
        if found != self._declared[0]:
            self._declared = (found, Declared.of(found))
        return self._declared[1]

    def tables(self, *layers: str) -> list[LakeTable]:
        """The tables of these layers, or of all. Those of a project are the last of each layer."""
        every = [*TABLES.values(), *self.declared().tables().values()]
        chosen = [table for table in every if table.layer in (layers or LAYERS)]
        return sorted(chosen, key=lambda table: LAYERS.index(table.layer))

    def table(self, path: str) -> LakeTable:
        """The table of a path such as `silver/messages`."""
        return TABLES.get(path) or self.declared().tables()[path]

    def begin_anew(self) -> State:
        """Lands everything again from here on. Silver keeps each message once."""
        return self.ledger.commit(Entry(kind="begin", staging=self.new_staging(), offsets={}))

    def new_staging(self) -> str:
        return f"{STAGING}/{uuid4().hex}"

    def clear_staging(self) -> None:
        """Removes the files of abandoned steps. The caller must be the only writer."""
        keep = self.ledger.settle().head
        for name in self.storage.names(STAGING):
            if keep is None or keep.staging != f"{STAGING}/{name}":
                self.storage.remove(f"{STAGING}/{name}")

    def frame(self, table: LakeTable, files: Iterable[DataFile] | None = None) -> DataFrame:
        """A table, or some of its files."""
        state = self.state()
        chosen = state.of(table) if files is None else list(files)
        staged = [file for file in chosen if self._is_staged(state, file)]
        placed = [file.path for file in chosen if file not in staged]
        frame = self.read(table, placed)
        if not staged or state.head is None:
            return frame
        return frame.unionByName(self.read(table, [f.path for f in staged], state.head.staging))

    def read(self, table: LakeTable, paths: list[str], below: str = "") -> DataFrame:
        """Files of a table by their paths in the lake, or in a staging directory."""
        schema = columns.schema(table)
        if not paths:
            return self._nothing(schema)
        prefix = f"{below}/" if below else ""
        base = self.storage.address(f"{prefix}{table.path}")
        reader = self.spark.read.schema(schema).option("basePath", base)
        frame = reader.parquet(*(self.storage.address(f"{prefix}{path}") for path in paths))
        return frame.select(*schema.fieldNames())

    def _nothing(self, schema: StructType) -> DataFrame:
        """No rows, in a form that the optimizer can eliminate."""
        none = (sf.lit(None).cast(field.dataType).alias(field.name) for field in schema)
        return self.spark.range(1).limit(0).select(*none)

    def _is_staged(self, state: State, file: DataFile) -> bool:
        """Whether the last step was decided, but its files were not moved yet."""
        if state.head is None or file.version != state.version or self.storage.exists(file.path):
            return False
        return self.storage.exists(f"{state.head.staging}/{file.path}")


def _read_about(storage: Storage) -> About | None:
    try:
        text = storage.read(LAKE_FILE)
        if text is None:
            return None
        found = json.loads(text)
        about = About(**{name: found[name] for name in About.__slots__ if name in found})
        known = about.format in FORMATS and isinstance(about.layout_version, int)
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise LakeError(
            f"{storage.address(LAKE_FILE)} does not describe a lake",
            hint="Name another --path, or put the file back as it was.",
        )
    if about.layout_version > columns.LAYOUT_VERSION:
        raise SchemaNewerError(
            f"the lake at {storage.root} has layout {about.layout_version}, "
            f"this Penstock knows layouts up to {columns.LAYOUT_VERSION}",
            hint="Upgrade Penstock. The lake was not changed.",
        )
    return about
