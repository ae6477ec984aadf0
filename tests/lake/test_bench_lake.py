"""`penstock bench lake` in its short form. What it measures is never asserted: machines differ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock_benchmarks.command import LAKE_FIGURES

pytestmark = pytest.mark.timeout(600)
JAR = Path("/usr/share/java/postgresql.jar")


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
    command = [sys.executable, "-m", "penstock.cli", "bench", "lake", "--short", "--json", file]
    only = [word for figure in chosen for word in ("--only", figure)]
    done = subprocess.run([*command, *only], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text("utf-8"))
    assert all(found["figures"][figure] > 0 for figure in chosen)
    assert found["figures"]["longest_snapshot_seconds"] > 0
    assert {"pyspark", "pyarrow"} <= set(found["versions"])
    assert any("Java" in note for note in found["notes"])
