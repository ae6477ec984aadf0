"""`penstock bench against`: two revisions of the sources in turns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.program import penstock
from penstock_benchmarks.against import CHECKOUT, Side, Turns, compare, numbers
from penstock_benchmarks.errors import BenchError


def worktrees() -> str:
    command = ["git", "-C", str(CHECKOUT), "worktree", "list"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_ratio_is_the_median_of_the_ratios_of_neighbouring_runs() -> None:
    # The machine was ten times slower in the second pair of runs. Both sides were.
    found = compare([({"a": 22.0}, {"a": 20.0}), ({"a": 1.8}, {"a": 2.0}), ({"a": 24}, {"a": 20})])
    assert found["a"] == Turns(new=22.0, old=20.0, ratio=1.1, ratios=[1.1, 0.9, 1.2])


def test_only_values_that_both_sides_have_are_compared() -> None:
    new = {"a": 1.0, "only new": 1.0, "never measured": None, "zero": 1.0}
    old = {"a": 2.0, "only old": 1.0, "never measured": None, "zero": 0.0}
    found = compare([(new, old), ({**new, "a": None}, old)])
    assert list(found) == ["a", "zero"]
    assert (found["a"].ratio, found["zero"].ratio) == (0.5, None)


def test_rates_and_times_of_the_table_are_values_too() -> None:
    rows = [
        {"what": "cycle 10", "penstock": "31,250/s"},
        {"what": "  deep", "penstock": "0.125 ms"},
        {"what": "heap", "penstock": "1.5 KiB"},
    ]
    found = numbers({"figures": {"cycle_10": 2.0}, "rows": rows})
    assert found == {"cycle_10": 2.0, "cycle 10 [/s]": 31250.0, "deep [ms]": 0.125}


def test_figures_rates_and_times_of_the_comparison_with_peers_are_values() -> None:
    rows = [
        {"scenario": "clean-16", "rate": 100.0, "p50": None},
        {"scenario": "clean-16", "rate": 300.0},
        {"scenario": "rate", "p50": 1.5, "p99": 4.0},
    ]
    figures = {"wal_bytes": {"penstock": 600.0}, "wal_bytes_penstock": 600.0}
    assert numbers({"bench": "peers", "figures": figures, "rows": rows}) == {
        "wal_bytes_penstock": 600.0,
        "clean-16 rate [/s]": 200.0,
        "rate p50 [ms]": 1.5,
        "rate p99 [ms]": 4.0,
    }


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["HEAD", "ablation"], "'ablation' is not one of"),
        (["HEAD", "wal", "--json=-"], "--json must come before REVISION"),
        (["HEAD", "wal", "--seconds", "1", "--dsn", "x"], "--dsn must come before REVISION"),
        (["--dsn", "x", "HEAD", "peers"], "peers starts its own PostgreSQL"),
        (["HEAD"], "Missing argument"),
        (["no-such-revision", "wal"], "name a commit, a branch or a tag"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    arguments: list[str], problem: str
) -> None:
    result = CliRunner().invoke(penstock, ["bench", "against", *arguments])
    assert result.exit_code != 0
    assert problem in f"{result.output} {getattr(result.exception, 'hint', '')}"


def test_a_side_that_imports_the_sources_of_the_other_is_refused(tmp_path: Path) -> None:
    side = Side("an empty revision", tmp_path, Path(sys.executable))
    with pytest.raises(BenchError, match=r"an empty revision imports .*not in its sources"):
        side.check()


@pytest.mark.slow
def test_both_sides_run_and_nothing_stays(dsn: str, tmp_path: Path) -> None:
    found, before = tmp_path / "found.json", worktrees()
    options = ["--rounds", "2", "--json", str(found), "--dsn", dsn]
    run = ["HEAD", "wal", "--seconds", "0.5", "--messages", "200"]
    result = CliRunner().invoke(
        penstock, ["bench", "against", *options, *run], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    document = json.loads(found.read_text("utf-8"))
    assert document["figures"]["wal_bytes"]["ratio"] == pytest.approx(1, abs=0.2)
    assert len(document["figures"]["disk_bytes"]["ratios"]) == 2
    assert worktrees() == before
