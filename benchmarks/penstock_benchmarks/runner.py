"""Runs one benchmark from beginning to end: scratch objects, measurement, report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TextIO

from rich.console import Console

from penstock.errors import ConfigurationError
from penstock.spark.session import MISSING
from penstock_benchmarks import (
    commit,
    contracts,
    depth,
    engine,
    limits,
    machine,
    steady,
    tasks,
    wal,
    worker,
)
from penstock_benchmarks.lake_history import QUEUE as LAKE_QUEUE
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress, progress
from penstock_benchmarks.report import Findings, Surroundings, show, write_json
from penstock_benchmarks.scratch import HISTORY_OFF, HISTORY_ON, Scratch, scratch


@dataclass(frozen=True)
class _Bench:
    run: Callable[[Scratch, Options, Progress], Findings]
    queues: Mapping[str, Mapping[str, Any]]
    packages: tuple[str, ...] = ()


def _http(place: Scratch, options: Options, progress: Progress) -> Findings:
    # Only here: the other benchmarks do without the web framework.
    from penstock_benchmarks import http

    return http.run(place, options, progress)


def _lake(place: Scratch, options: Options, progress: Progress) -> Findings:
    if find_spec("pyspark") is None:
        raise ConfigurationError("Spark is not installed", hint=MISSING)
    from penstock_benchmarks import lake

    return lake.run(place, options, progress)


def _refresh(place: Scratch, options: Options, progress: Progress) -> Findings:
    if find_spec("pyspark") is None:
        raise ConfigurationError("Spark is not installed", hint=MISSING)
    from penstock_benchmarks import refresh

    return refresh.run(place, options, progress)


HTTP_QUEUES = dict.fromkeys(("bench-http", "bench-http-sql", "bench-http-polled"), HISTORY_OFF)
LAKE_QUEUES = {LAKE_QUEUE: HISTORY_ON}
LAKE_PACKAGES = ("pyspark", "pyarrow", "adbc-driver-postgresql")
_BENCHES = {
    "engine": _Bench(engine.run, engine.QUEUES),
    "steady": _Bench(steady.run, steady.QUEUES),
    "depth": _Bench(depth.run, depth.QUEUES),
    "wal": _Bench(wal.run, wal.QUEUES),
    "worker": _Bench(worker.run, worker.QUEUES),
    "limits": _Bench(limits.run, limits.QUEUES),
    "tasks": _Bench(tasks.run, tasks.QUEUES),
    "commit": _Bench(commit.run, commit.QUEUES),
    "contracts": _Bench(contracts.run, contracts.QUEUES),
    "lake": _Bench(_lake, LAKE_QUEUES, LAKE_PACKAGES),
    "refresh": _Bench(_refresh, LAKE_QUEUES, LAKE_PACKAGES),
    "http": _Bench(_http, HTTP_QUEUES),
}
# An idle server's own transactions are younger than this; a pinned horizon soon is not.
_PINNED_XIDS = 10_000


def run(
    name: str, dsn: str, chosen: dict[str, Any], json_file: TextIO | None, to_stderr: bool
) -> None:
    """`chosen` are fields of Options: only those that this benchmark knows are reported."""
    options = Options(**chosen)
    bench, before, started_at = _BENCHES[name], machine.machine(), machine.now()
    with progress() as bar, scratch(dsn, bench.queues, options.plain_order) as place:
        warning = _horizon_warning(place)
        findings = bench.run(place, options, bar)
        bar.say("cleaning up")
        server = machine.server(place.connection)
    findings.notes[:0] = warning
    surroundings = Surroundings(
        name, started_at, machine.now(), chosen, before, machine.versions(bench.packages), server
    )
    show(Console(stderr=to_stderr), surroundings, findings)
    if json_file is not None:
        write_json(json_file, surroundings, findings)


def _horizon_warning(place: Scratch) -> list[str]:
    xids = place.run("horizon_age")
    if xids < _PINNED_XIDS:
        return []
    return [
        f"another session has held the horizon for {xids:,} transactions: "
        "what is called unpinned here was not; `penstock doctor` names the session"
    ]
