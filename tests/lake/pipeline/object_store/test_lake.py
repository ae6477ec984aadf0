"""A whole lake on S3, by its commands: landing, silver, gold, compaction, damage and erasure."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake.pipeline.conftest import Cli, Traffic
from tests.lake.pipeline.object_store.conftest import Bucket

from penstock.lake.lake import Lake
from penstock.lake.layout import BRONZE_HISTORY, GOLD_QUEUE_DAY, LAYERS, SILVER_MESSAGES

pytestmark = pytest.mark.timeout(1800)

SECRET = "ada-lovelace-7"
WHERE = ("--where", f"payload LIKE '%{SECRET}%'")


@pytest.mark.parametrize("format", ["parquet", "delta", "iceberg"])
@pytest.mark.usefixtures("one_day")
def test_a_lake_on_s3_is_filled_compacted_verified_repaired_and_erased_from(
    format: str, traffic: Traffic, cli: Cli, spark: Any, bucket: Bucket, root: str, dsn: str
) -> None:
    for payload in ({"customer": "grace"}, {"customer": SECRET}):
        traffic.done("orders", 20, payload)
        traffic.fails("mail", "smtp 421", attempts=2)
        assert cli("lake", "run", "--once", "--format", format, "--name", "test")[0] == 0
    code, out, _ = cli("--json", "lake", "compact", "--clear-after", "0s")
    assert code == 0
    assert json.loads(out)["joined"] > 0
    assert_verified(cli)

    lake = Lake.open(root, spark, dsn=dsn)
    assert lake.frame(BRONZE_HISTORY).count() == lake.frame(SILVER_MESSAGES).count() == 42
    assert lake.frame(GOLD_QUEUE_DAY).groupBy().sum("finished").first()[0] == 42
    assert seen_by_others(lake, bucket) == 42

    harmed = harm(lake, bucket)
    code, out, _ = cli("lake", "verify")
    assert code == 9
    assert all(f"damaged: {path}" in out for path in harmed)
    code, out, _ = cli("lake", "repair")
    assert (code, "no message is lost" in out) == (0, True)
    assert_verified(cli)
    assert seen_by_others(lake, bucket) == 42

    assert found_in_objects(bucket, root)
    code, out, err = cli("--json", "lake", "forget", *WHERE, "--yes")
    assert (code, err) == (0, "")
    assert json.loads(out)["messages"] == 20
    assert found_in_objects(bucket, root) == []
    assert_verified(cli)
    assert seen_by_others(lake, bucket) == 22
    assert not [path for path in bucket.objects(root) if path.startswith("_staging/")]


def assert_verified(cli: Cli) -> None:
    code, out, err = cli("lake", "verify")
    assert code == 0, out + err


def seen_by_others(lake: Lake, bucket: Bucket) -> int:
    """The rows of bronze, as a program without Spark reads them."""
    if lake.about.format == "delta":
        from deltalake import DeltaTable

        address = lake.storage.address(BRONZE_HISTORY.path).replace("s3a://", "s3://")
        table = DeltaTable(address, storage_options=bucket.delta_options())
        return int(table.to_pyarrow_table().num_rows)
    if lake.about.format == "iceberg":
        return int(lake.format._load(BRONZE_HISTORY).scan().to_arrow().num_rows)  # type: ignore[attr-defined]
    return sum(
        pq.read_metadata(io.BytesIO(content)).num_rows
        for path, content in bucket.objects(lake.storage.root).items()
        if path.startswith(f"{BRONZE_HISTORY.path}/") and path.endswith(".parquet")
    )


def harm(lake: Lake, bucket: Bucket) -> list[str]:
    """One file of each layer: truncated, changed in one bit, deleted."""
    harmed = []
    for layer, how in zip(LAYERS, ("truncate", "flip", "delete"), strict=True):
        path = sorted(file for file in lake.state().files if file.startswith(f"{layer}/"))[0]
        address = lake.storage.address(path)
        content = bytearray(bucket.read(address))
        if how == "delete":
            bucket.files.delete_file(address.removeprefix("s3a://"))
        elif how == "truncate":
            bucket.write(address, bytes(content[: len(content) // 2]))
        else:
            content[len(content) // 2] ^= 1
            bucket.write(address, bytes(content))
        harmed.append(path)
    return harmed


def found_in_objects(bucket: Bucket, root: str) -> list[str]:
    """Every object whose bytes, or whose decoded rows, have the secret."""
    found = []
    for path, content in bucket.objects(root).items():
        text = content
        if path.endswith(".parquet"):
            # A damaged file in quarantine may not decode.
            with suppress(pa.ArrowInvalid, OSError):
                text += str(pq.ParquetFile(io.BytesIO(content)).read().to_pylist()).encode()
        if SECRET.encode() in text:
            found.append(path)
    return found
