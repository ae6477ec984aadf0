"""What Iceberg's readers are shown of the ledger, with both catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake.pipeline.rest_catalog import rest_catalog

from penstock.errors import ConfigurationError
from penstock.lake import columns
from penstock.lake.layout import BRONZE_HISTORY, TABLES
from penstock.lake.storage.filesystem import LocalStorage
from penstock.lake.storage.iceberg_format import IcebergFormat
from penstock.lake.storage.ledger import DataFile, Entry, Ledger


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "lake")


@pytest.fixture(params=["postgresql", "rest"])
def format(
    request: pytest.FixtureRequest, storage: LocalStorage, tmp_path: Path
) -> Iterator[IcebergFormat]:
    if request.param == "postgresql":
        dsn = request.getfixturevalue("dsn")
        yield IcebergFormat(storage, TABLES.__getitem__, "main", dsn=dsn)
        return
    with rest_catalog(tmp_path) as address:
        yield IcebergFormat(storage, TABLES.__getitem__, "main", address)


def step(storage: LocalStorage, name: str, **more: Any) -> Entry:
    """A step that adds one file of two rows."""
    path = f"{BRONZE_HISTORY.path}/day=2026-01-31/queue=q/{name}.parquet"
    staged = storage.directory / f"_staging/{name}" / path
    staged.parent.mkdir(parents=True)
    schema = columns.file_arrow(BRONZE_HISTORY)
    rows = [{"id": number, "payload": name} for number in (1, 2)]
    pq.write_table(pa.Table.from_pylist(rows, schema), staged)
    file = DataFile(path, 2, staged.stat().st_size, 1, 2, 0, 5)
    return Entry("land", f"_staging/{name}", (file,), **more)


def payloads(format: IcebergFormat) -> list[str]:
    table = format._load(BRONZE_HISTORY)
    assert table is not None
    return sorted(set(table.scan().to_arrow()["payload"].to_pylist()))


def test_a_table_has_the_files_of_the_ledger(format: IcebergFormat, storage: LocalStorage) -> None:
    ledger = Ledger(storage, format.publish)
    first = ledger.commit(step(storage, "one"))
    assert payloads(format) == ["one"]
    ledger.commit(replace(step(storage, "two"), kind="compact", remove=tuple(first.files)))
    assert payloads(format) == ["two"]


def test_a_step_that_is_published_again_changes_nothing(
    format: IcebergFormat, storage: LocalStorage
) -> None:
    state = Ledger(storage, format.publish).commit(step(storage, "one"))
    before = format._load(BRONZE_HISTORY)
    format.publish(state)
    after = format._load(BRONZE_HISTORY)
    assert before is not None
    assert after is not None
    assert after.metadata_location == before.metadata_location


def test_cleared_files_are_gone_and_readers_of_today_keep_theirs(
    format: IcebergFormat, storage: LocalStorage
) -> None:
    ledger = Ledger(storage, format.publish)
    first = ledger.commit(step(storage, "one"))
    ledger.commit(replace(step(storage, "two"), remove=tuple(first.files)))
    assert format.clear(BRONZE_HISTORY, ledger.settle, hours=1) == 0
    assert format.clear(BRONZE_HISTORY, ledger.settle, hours=0) == 1
    assert format.clear(BRONZE_HISTORY, ledger.settle, hours=0) == 0
    assert payloads(format) == ["two"]
    table = format._load(BRONZE_HISTORY)
    assert table is not None
    assert len(table.metadata.snapshots) == 1


def test_without_a_database_the_error_says_what_is_missing(storage: LocalStorage) -> None:
    format = IcebergFormat(storage, TABLES.__getitem__, "main")
    with pytest.raises(ConfigurationError, match="cannot be written without their catalog"):
        Ledger(storage, format.publish).commit(step(storage, "one"))
