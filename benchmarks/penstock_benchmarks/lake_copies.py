"""A lake made larger by copies of its rows, so that millions of messages take seconds."""

from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.lake.lake import Lake
from penstock.lake.layout import BRONZE_HISTORY, GOLD, SILVER_MESSAGES, LakeTable
from penstock.lake.maintenance.rebuild import rebuild
from penstock.lake.storage.checksums import file_checksum
from penstock.lake.storage.data_files import COMPRESSION, COMPRESSION_LEVEL
from penstock.lake.storage.filesystem import LocalStorage
from penstock.lake.storage.ledger import DataFile, Entry

# Ids of copies begin here. PostgreSQL gives none of them out.
_FIRST_COPY = 10**15


def size(lake: Lake) -> int:
    """How many messages the lake has."""
    return sum(file.rows for file in lake.state().of(BRONZE_HISTORY))


def copy_files(lake: Lake, rows: int) -> None:
    """Adds about so many messages to bronze and silver, of the same days and queues.

    Copies have the times of their originals and their own ids. Gold is counted again.
    """
    state, staging = lake.ledger.settle(), lake.new_staging()
    tables = (BRONZE_HISTORY, SILVER_MESSAGES)
    originals = [f for table in tables for f in state.of(table) if (f.id_min or 0) < _FIRST_COPY]
    each = sum(file.rows for file in originals if file.table == BRONZE_HISTORY.path)
    done = (size(lake) - each) // each
    added = [
        _copy(lake, file, _FIRST_COPY * number, staging)
        for file in originals
        for number in range(done + 1, done + 1 + rows // each)
    ]
    lake.ledger.commit(Entry(kind="copy", staging=staging, add=tuple(added)))
    rebuild(lake, GOLD)


def _copy(lake: Lake, file: DataFile, offset: int, staging: str) -> DataFile:
    assert isinstance(lake.storage, LocalStorage)
    table: LakeTable = lake.table(file.table)
    found = pq.ParquetFile(lake.storage.directory / file.path).read()
    place = found.column_names.index(table.id_column)
    ids = pc.add(found[table.id_column], pa.scalar(offset, pa.int64()))
    path = f"{file.path.rpartition('/')[0]}/part-{uuid4().hex}.parquet"
    target = lake.storage.directory / staging / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shifted = found.set_column(place, found.schema.field(place), ids)
    pq.write_table(shifted, target, compression=COMPRESSION, compression_level=COMPRESSION_LEVEL)
    return replace(
        file,
        path=path,
        bytes=target.stat().st_size,
        id_min=(file.id_min or 0) + offset,
        id_max=(file.id_max or 0) + offset,
        sha256=file_checksum(target),
    )
