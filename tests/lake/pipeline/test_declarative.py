"""The declarative pipeline of examples/lake_pipeline, run by spark-pipelines as its README says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

pytestmark = pytest.mark.timeout(900)

PROJECT = Path(__file__).parents[3] / "examples" / "lake_pipeline"


def run(project: Path, dsn: str) -> None:
    program = Path(sys.executable).with_name("spark-pipelines")
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [program, "--remote", "local[2]", *options, "run"],
        cwd=project,
        env={
            **os.environ,
            "PENSTOCK_DSN": dsn,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",  # else its port is the same for all runs on a machine
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def rows(project: Path, table: str) -> Any:
    return ds.dataset(project / "spark-warehouse" / table, partitioning="hive").to_table()


@pytest.mark.slow
def test_it_builds_the_same_tables_and_goes_on(
    traffic: Any, dsn: str, tmp_path: Path, sql: Any
) -> None:
    project = tmp_path / "pipeline"
    shutil.copytree(PROJECT, project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/penstock_lake", str(tmp_path / "storage")))
    for total in (20, 40, 60):
        traffic.done("orders", 20)
        traffic.fails("mail", "smtp 421")
        run(project, dsn)
        finished = sql("select count(*) from penstock.history_log")[0][0]
        assert rows(project, "bronze_history").num_rows == finished
        assert rows(project, "silver_messages").num_rows == finished
        minutes = rows(project, "gold_queue_minute").to_pylist()
        assert sum(row["finished"] for row in minutes if row["queue"] == "orders") == total
        assert sum(rows(project, "gold_queue_day")["failed_attempts"].to_pylist()) == total // 20
        assert rows(project, "gold_error_day")["error_kind"].to_pylist() == ["smtp <n>"]
