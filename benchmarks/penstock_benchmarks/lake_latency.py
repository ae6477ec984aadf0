"""From commit to visible in bronze: `penstock lake run --every 1s`, and few messages."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq

from penstock_benchmarks import wire
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.lake_history import QUEUE
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.scratch import Scratch
from penstock_benchmarks.session import System

_LOOK_SECONDS = 0.02
# Apart from each other by chance, so that they do not keep step with the trigger.
_GAP_SECONDS = (0.1, 0.9)
_PATIENCE_SECONDS = 120.0


class Bronze:
    """Who lists the directory of a lake, as any engine would, and reads what is new in it."""

    def __init__(self, lake: Path) -> None:
        self._directory = lake / "bronze" / "history"
        self._read: set[Path] = set()

    def new_ids(self) -> list[int]:
        ids: list[int] = []
        for file in set(self._directory.glob("day=*/queue=*/*.parquet")) - self._read:
            # One that was compacted away meanwhile: the joined file has its rows.
            with suppress(FileNotFoundError):
                ids += pq.ParquetFile(file).read(columns=["id"])["id"].to_pylist()
            self._read.add(file)
        return ids


def lake_latency(place: Scratch, home: Path, progress: Progress, samples: int) -> list[float]:
    """Seconds for each message, in the order in which they were committed."""
    place.run("lake.forget")
    lake = home / "latency"
    bronze = Bronze(lake)
    committed: dict[int, float] = {}
    seconds: dict[int, float] = {}
    chance = random.Random(1)
    progress.say("lake_latency_p50_seconds: starting the run")
    with _running(place.dsn, lake, home / "latency.log") as run:
        # The first batches start Python processes and compile: they are over when these are there.
        for _ in range(3):
            _await(run, bronze, _finish(place))
        progress.say("lake_latency_p50_seconds: a message now and then")
        next_at = time.monotonic()
        while len(committed) < samples or committed.keys() - seconds.keys():
            now = time.monotonic()
            if now >= next_at and len(committed) < samples:
                id = _finish(place)
                committed[id] = time.monotonic()
                next_at = committed[id] + chance.uniform(*_GAP_SECONDS)
            _look(bronze, committed, seconds)
            _check(run, min((at for id, at in committed.items() if id not in seconds), default=now))
            time.sleep(_LOOK_SECONDS)
    progress.step()
    return [seconds[id] for id in committed]


def _finish(place: Scratch) -> int:
    """A message, enqueued, claimed and acked; committed when this returns."""
    session = place.sessions[System.PENSTOCK]
    session.synchronous_commit(True)
    session.enqueue(QUEUE.encode(), wire.jsonb(wire.json_payload(200)))
    claimed = session.claim(QUEUE.encode(), wire.int4(1))
    session.ack(claimed)
    value = claimed.get_value(0, 0)
    assert value is not None
    return int.from_bytes(value)


def _look(bronze: Bronze, committed: dict[int, float], seconds: dict[int, float]) -> None:
    found = bronze.new_ids()
    now = time.monotonic()
    for id in found:
        if id in committed:
            seconds.setdefault(id, now - committed[id])


def _await(run: "subprocess.Popen[bytes]", bronze: Bronze, id: int) -> None:
    begun = time.monotonic()
    while id not in bronze.new_ids():
        _check(run, begun)
        time.sleep(_LOOK_SECONDS)


def _check(run: "subprocess.Popen[bytes]", waiting_since: float) -> None:
    if run.poll() is not None:
        raise BenchError(f"`penstock lake run` ended with {run.returncode}")
    if time.monotonic() - waiting_since > _PATIENCE_SECONDS:
        raise BenchError(f"a message is not in bronze after {_PATIENCE_SECONDS:.0f} s")


@contextmanager
def _running(dsn: str, lake: Path, log: Path) -> "Iterator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "penstock.cli", "lake", "run", "--every", "1s"]
    environment = {**os.environ, "PENSTOCK_DSN": dsn}
    with log.open("wb") as output:
        run = subprocess.Popen(
            [*command, "--path", str(lake)], env=environment, stdout=output, stderr=output
        )
        try:
            yield run
        finally:
            run.terminate()
            try:
                run.wait(timeout=60)
            except subprocess.TimeoutExpired:
                run.kill()
                run.wait()
