"""`penstock bench lake` in its short form. What it measures is never asserted: machines differ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock_benchmarks.command import LAKE_FIGURES

pytestmark = pytest.mark.timeout(600)
# What `make bench-lake` fetches, or Debian's package.
JARS = [*Path(sys.prefix, "reader-jars").glob("postgresql-*.jar")]
JAR = next(iter(JARS), Path("/usr/share/java/postgresql.jar"))


def bench(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli", "bench", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(LAKE_FIGURES, marks=pytest.mark.slow, id="all"),
        pytest.param(("queue_while_landing",), marks=pytest.mark.slow, id="next to the queue"),
        pytest.param(("lake_latency_p50_seconds",), marks=pytest.mark.slow, id="latency"),
    ],
)
def test_it_reports_its_figures(chosen: tuple[str, ...], tmp_path: Path) -> None:
    if not JAR.exists():
        chosen = tuple(figure for figure in chosen if not figure.endswith("_over_jdbc"))
    file = tmp_path / "found.json"
    only = [word for figure in chosen for word in ("--only", figure)]
    done = bench("lake", "--short", "--json", file, "--jdbc-jar", JAR, *only)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text("utf-8"))
    assert all(found["figures"][figure] > 0 for figure in chosen)
    assert found["figures"]["longest_snapshot_seconds"] > 0
    assert {"pyspark", "pyarrow"} <= set(found["versions"])
    assert any("Java" in note for note in found["notes"])


def test_a_missing_driver_is_an_error_before_anything_is_measured(tmp_path: Path) -> None:
    jar = tmp_path / "none.jar"
    for only in ((), ("--only", "sink_over_jdbc")):
        done = bench("lake", "--short", "--jdbc-jar", jar, *only)
        assert done.returncode != 0
        assert f"there is no JDBC driver in {jar}" in done.stderr
        assert "make bench-lake" in done.stderr


@pytest.mark.slow
def test_the_cost_of_a_refresh_is_reported_by_the_size_of_the_lake(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    done = bench("refresh", "--short", "--json", file)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text("utf-8"))
    for lake in ("smallest", "middle", "largest"):
        assert found["figures"][f"{lake}_refresh_seconds"] > 0
    assert found["figures"]["largest_over_smallest"] > 0
    assert [len(found["samples"][size]["refreshes"]) for size in ("300", "3000", "30000")] == [
        2
    ] * 3
