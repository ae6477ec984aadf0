"""Reads a table of a lake with a program that is not Penstock, and prints its rows as JSON.

Run as `python lake_readers.py FORMAT READER LAKE TABLE ADDRESS`, in the environment of `make
test-readers`. ADDRESS is the database with the catalog: for SQLAlchemy, and for JDBC if the reader
is Spark.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any

COLUMNS = ["id", "queue", "day", "finished_at", "payload"]
NAMESPACE = "test"
Rows = Iterable[dict[str, Any]]


def iceberg_table(table: str, address: str) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("penstock", uri=address, init_catalog_tables="false")
    return catalog.load_table((NAMESPACE, table.replace("/", "_")))


def iceberg_by_pyiceberg(root: str, table: str, address: str) -> Rows:
    scan = iceberg_table(table, address).scan(selected_fields=tuple(COLUMNS))
    return scan.to_arrow().to_pylist()


def iceberg_by_polars(root: str, table: str, address: str) -> Rows:
    import polars

    return polars.scan_iceberg(iceberg_table(table, address)).select(COLUMNS).collect().to_dicts()


def iceberg_by_duckdb(root: str, table: str, address: str) -> Rows:
    metadata = iceberg_table(table, address).metadata_location
    return duckdb_rows(f"iceberg_scan('{metadata}')", "avro", "iceberg")


def iceberg_by_spark(root: str, table: str, address: str) -> Rows:
    """By name, through Iceberg's JDBC catalog."""
    settings = {
        "spark.sql.catalog.penstock": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.penstock.type": "jdbc",
        "spark.sql.catalog.penstock.uri": address,
        "spark.sql.catalog.penstock.jdbc.schema-version": "V1",
        "spark.sql.catalog.penstock.warehouse": root,
    }
    return spark_rows(f"penstock.{NAMESPACE}.{table.replace('/', '_')}", settings)


def delta_by_delta_rs(root: str, table: str, address: str) -> Rows:
    from deltalake import DeltaTable

    return DeltaTable(f"{root}/{table}").to_pyarrow_table(columns=COLUMNS).to_pylist()


def delta_by_polars(root: str, table: str, address: str) -> Rows:
    import polars

    return polars.scan_delta(f"{root}/{table}").select(COLUMNS).collect().to_dicts()


def delta_by_duckdb(root: str, table: str, address: str) -> Rows:
    return duckdb_rows(f"delta_scan('{root}/{table}')", "delta")


def delta_by_spark(root: str, table: str, address: str) -> Rows:
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    return spark_rows(f"delta.`{root}/{table}`", settings)


def spark_rows(table: str, settings: dict[str, str]) -> Rows:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("readers").master("local[1]")
    common = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        # As --packages adds them: Spark's own versions of their dependencies come first.
        "spark.jars": ",".join(map(str, Path(sys.prefix).parent.glob("reader-jars/*.jar"))),
    }
    for name, value in {**common, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    found = spark.sql(f"SELECT {', '.join(COLUMNS)} FROM {table}").toArrow().to_pylist()
    spark.stop()
    return list(found)


def duckdb_rows(scan: str, *extensions: str) -> Rows:
    """With extensions from the package index, which DuckDB has not signed."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute("SET TimeZone = 'UTC'")
    for name in extensions:
        package = importlib.import_module(f"duckdb_extension_{name}")
        folder = Path(str(package.__file__)).parent
        (file,) = folder.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    rows = connection.sql(f"SELECT {', '.join(COLUMNS)} FROM {scan}").to_arrow_table()
    return list(rows.to_pylist())


READERS: dict[str, Callable[[str, str, str], Rows]] = {
    "iceberg/pyiceberg": iceberg_by_pyiceberg,
    "iceberg/polars": iceberg_by_polars,
    "iceberg/duckdb": iceberg_by_duckdb,
    "iceberg/spark": iceberg_by_spark,
    "delta/delta-rs": delta_by_delta_rs,
    "delta/polars": delta_by_polars,
    "delta/duckdb": delta_by_duckdb,
    "delta/spark": delta_by_spark,
}


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    return value.isoformat() if isinstance(value, date) else value


if __name__ == "__main__":
    format, reader, *arguments = sys.argv[1:]
    found = READERS[f"{format}/{reader}"](*arguments)
    print(json.dumps([[plain(row[name]) for name in COLUMNS] for row in found]))
