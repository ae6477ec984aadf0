"""The benchmark against the peers: that it runs, and that its arithmetic is right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock_benchmarks.peers.bars import bar, passes
from penstock_benchmarks.peers.figures import Table, figures
from penstock_benchmarks.peers.page import text
from penstock_benchmarks.peers.plan import FORMS
from penstock_benchmarks.peers.results import of_others

ROOT = Path(__file__).parent.parent
BENCH = ROOT / "benchmarks" / "penstock_benchmarks"
DOCS = ROOT / "docs"
RESULTS = DOCS / "benchmarks" / "results.json"
WORKERS = dict.fromkeys(["penstock", "awa", "pg-boss", "pgqueuer"], "worker")
SETTINGS = ["shared_buffers", "max_wal_size", "checkpoint_timeout", "synchronous_commit", "fsync"]
SETTINGS += ["autovacuum"]
LOCK = BENCH / "peers" / "package-lock.json"


def test_a_short_run_loses_nothing_and_writes_a_row_for_each_window(tmp_path: Path) -> None:
    document = _run(tmp_path, "penstock", "penstock-client", "plain-table")
    rows = document["rows"]
    assert {row["peer"] for row in rows} == {"penstock", "penstock-client", "plain-table"}
    assert [row for row in rows if "error" in row] == []
    clean = [row for row in rows if row["scenario"].startswith("clean-")]
    assert [(row["lost"], row["doubled"], row["settled"]) for row in clean] == [
        (0, 0, True) for _ in clean
    ]
    assert all(row["rate"] > 0 and row["work"]["wal_bytes"] > 0 for row in clean)
    paced = [row for row in rows if row["scenario"] == "rate"]
    assert [row["handled"] for row in paced] == [row["messages"] for row in paced]
    assert all(0 < row["p50"] <= row["p99"] <= row["max"] for row in paced)
    assert document["figures"]["loop_clean-16_over_plain-table"] > 0
    assert document["figures"]["wal_bytes_clean-16_penstock"] > 400


def _run(tmp_path: Path, *peers: str) -> dict:
    place = tmp_path / "peers.json"
    options = ["--form", "smoke", "--set", "fsync=off", "--scenario", "clean", "--scenario", "rate"]
    for peer in peers:
        options += ["--peer", peer]
    done = _peers("run", *options, "--json", str(place), "--log", str(tmp_path / "peers.log"))
    assert done.returncode == 0, done.stderr + (tmp_path / "peers.log").read_text()
    return json.loads(place.read_text())


def _peers(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock_benchmarks.peers", *arguments],
        capture_output=True,
        text=True,
        timeout=150,
    )


def test_an_unknown_peer_is_refused_with_those_there_are() -> None:
    done = _peers("run", "--peer", "kafka")
    assert done.returncode == 2
    assert "'kafka' is not a peer; allowed: " in done.stderr
    assert "graphile-worker" in done.stderr


def test_we_are_measured_against_the_fastest_peer_of_the_same_round() -> None:
    rows = [
        _drained("penstock", 0, 3000),
        _drained("penstock", 1, 1500),
        _drained("awa", 0, 1000),
        _drained("awa", 1, 500),
        _drained("pg-boss", 0, 2000),
        _drained("pg-boss", 1, 1000),
    ]
    found = figures(Table(rows, {"penstock": "worker", "awa": "worker", "pg-boss": "worker"}))
    assert found["rate_clean-16_over_best"] == pytest.approx(1.5)
    assert found["rate_clean-16_best"] == "pg-boss"
    assert found["rate_clean-16_over"] == {"awa": pytest.approx(3), "pg-boss": pytest.approx(1.5)}


def test_we_are_compared_with_ourselves_in_pairs_of_windows() -> None:
    """On a machine that slows down meanwhile, all that was measured later looks slow."""
    rates = {
        "unpinned-xid": [4000],
        "pinned-xid": [1000],
        "pair-unpinned-xid": [4000, 2000, 1000],
        "pair-pinned-xid": [3900, 1960, 1000],
    }
    rows = [
        {**_drained("penstock", number, rate), "scenario": scenario}
        for scenario, each in rates.items()
        for number, rate in enumerate(each)
    ]
    found = figures(Table(rows, {"penstock": "worker"}))
    assert found["kept_pinned-xid"] == pytest.approx(0.98)
    assert found["kept_pinned-xid_all"] == {"penstock": pytest.approx(0.25)}


def test_a_window_that_failed_counts_for_nobody() -> None:
    rows = [_drained("penstock", 0, 3000), _drained("awa", 0, 1000)]
    rows += [{"peer": "awa", "scenario": "clean-16", "round": 1, "error": "gone"}]
    found = figures(Table(rows, {"penstock": "worker", "awa": "worker"}))
    assert found["rate_clean-16_over_best"] == pytest.approx(3)


def test_the_costs_of_a_message_are_those_of_its_whole_life() -> None:
    rows = [_drained("penstock", 0, 3000), _drained("awa", 0, 1000, wal=1000)]
    found = figures(Table(rows, {"penstock": "worker", "awa": "worker"}))
    assert found["wal_bytes_clean-16_penstock"] == pytest.approx(500)
    assert found["wal_bytes_clean-16_over_best"] == pytest.approx(0.5)


def test_what_a_worker_does_when_it_starts_is_no_cost_of_a_message() -> None:
    started = _drained("awa", 0, 1000)
    # 20 of 100 were handled before the start was over; the rest cost 25,000 bytes.
    rows = [{**started, "early": 20, "start": {"wal_bytes": 10**9}}]
    found = figures(Table(rows, {"awa": "worker"}))
    assert found["wal_bytes_clean-16"]["awa"] == pytest.approx(25_000 / 100 + 25_000 / 80)


def test_a_run_is_gone_on_with_only_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "peers.json"
    done = _peers("run", "--resume", "--json", str(place))
    assert (done.returncode, "needs --json with the file of a run" in done.stderr) == (2, True)
    place.write_text(json.dumps({"form": "short"}))
    done = _peers("run", "--resume", "--json", str(place))
    assert (done.returncode, "is of the form 'short'" in done.stderr) == (2, True)


def test_what_is_measured_again_may_be_measured_in_another_way() -> None:
    was, now = {"rate": 800, "rate_rounds": 3, "rounds": 4}, {"rate": 800, "rate_rounds": 7}
    assert of_others(was, ["rate"]) == of_others({**now, "rounds": 4}, ["rate"])
    assert of_others(was, ["rate"]) != of_others({**now, "rounds": 5}, ["rate"])
    assert of_others(was, ["burst"]) != of_others({**now, "rounds": 4}, ["burst"])


def test_a_peer_that_answers_sooner_is_the_best_at_latency() -> None:
    rows = [
        {"peer": peer, "scenario": "rate", "round": 0, "p99": late, "offered": 800, "wanted": 800}
        for peer, late in {"penstock": 6.0, "awa": 3.0, "pg-boss": 60.0}.items()
    ]
    # Sooner still, but at half the rate.
    rows += [{**rows[0], "peer": "pgqueuer", "p99": 1.0, "offered": 400}]
    found = figures(Table(rows, WORKERS))
    assert found["p99_rate_over_best"] == pytest.approx(2)
    assert found["p99_rate_best"] == "awa"


def test_bars_say_what_has_to_be_passed() -> None:
    assert bar("rate_clean-16_over_best", 1.3) == ("at least", 1.2)
    assert bar("rate_clean-16-1ms_over_best", 1.3) is None
    assert bar("rate_clean-16_best", "awa") is None
    assert bar("lost_kill", 0) == ("at most", 0)
    assert passes(0.9, "at most", 1.0)
    assert not passes(1.1, "at least", 1.2)


@pytest.mark.skipif(not RESULTS.exists(), reason="the page is written after the first full run")
def test_the_page_is_what_its_results_say() -> None:
    assert (DOCS / "benchmarks.md").read_text() == text(json.loads(RESULTS.read_text()))


def test_a_page_names_the_peers_that_are_ahead(tmp_path: Path) -> None:
    rows = [_drained("penstock", 0, 1000), _drained("awa", 0, 2000)]
    kinds = {"penstock": "worker", "awa": "worker"}
    document = {
        "form": "short",
        "started_at": "2026-01-31T12:00:00+00:00",
        "seconds": 180,
        "machine": {"cpus": 2, "cpu": "test", "memory_bytes": 2**30, "busy_before": 0.7},
        "versions": {"python": "3.11", "psycopg": "3.2"},
        "server": {"version": "PostgreSQL 18, x", "settings": dict.fromkeys(SETTINGS, "on")},
        "plan": {**FORMS["short"].__dict__, "concurrency": [16], "usual": 16},
        "peers": {name: {"kind": "worker", "version": "1", "settings": ""} for name in kinds},
        "figures": figures(Table(rows, kinds)),
        "rows": rows,
    }
    page = text(document)
    assert "- **awa**: `rate_clean-16` 0.50" in page
    assert "| penstock | 1,000 |" in page
    claim = "completions a second at concurrency 16: Penstock's worker / awa"
    assert f"- {claim}: **0.50**, the bar is 1.2" in page
    assert f"| {claim} | 0.50 | ≥ 1.2 | **no** |" in page
    assert "The machine was busy with other work" in page
    assert "{{" not in page


def test_the_lock_of_the_node_peers_has_hashes_and_no_hosts() -> None:
    packages = {name: one for name, one in json.loads(LOCK.read_text())["packages"].items() if name}
    assert len(packages) > 50
    assert [name for name, package in packages.items() if "integrity" not in package] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []


def _drained(peer: str, number: int, rate: float, wal: int = 500) -> dict:
    part = {"wal_bytes": wal * 50, "transactions": 10, "cpu_seconds": 0.1}
    return {
        "peer": peer,
        "scenario": "clean-16",
        "round": number,
        "messages": 100,
        "handled": 100,
        "rate": rate,
        "enqueue": part,
        "work": part,
        "worker_cpu_seconds": 0.1,
    }
