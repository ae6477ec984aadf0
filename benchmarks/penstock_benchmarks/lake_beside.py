"""What landing costs the queue: cycles of clients while Spark lands, and while it does not."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from penstock.lake.bronze import Landing
from penstock.lake.lake import Lake
from penstock.spark.session import spark_session
from penstock_benchmarks.crew import crew, interrupts_held
from penstock_benchmarks.driver import Kind, Work
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.lake_history import QUEUE, fill_history
from penstock_benchmarks.lake_pairs import Pair
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.scratch import Scratch
from penstock_benchmarks.session import System

CLIENTS = 8
BATCH = 10
# So that it can stop soon after a window is over.
_ROWS_AT_ONCE = 50_000
_LOWEST_PRIORITY = 19


class Lander:
    """Spark in a separate process, which lands history repeatedly until it is stopped."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._answer()

    def start(self) -> None:
        self._pipe.send("land")

    def stop(self) -> int:
        """How many rows it has landed since."""
        self._pipe.send("stop")
        return int(self._answer())

    def _answer(self) -> Any:
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise BenchError("the process that lands ended unexpectedly") from None
        if isinstance(answer, Exception):
            raise BenchError(f"landing failed: {answer}") from answer
        return answer


@contextmanager
def lander(dsn: str, home: Path) -> Iterator[Lander]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_land_main, args=(theirs, dsn, str(home)), daemon=True)
    with interrupts_held():
        process.start()
    theirs.close()
    try:
        yield Lander(ours)
    finally:
        ours.close()
        process.join(timeout=20)
        if process.is_alive():
            process.terminate()
            process.join()


def _land_main(pipe: Connection, dsn: str, home: str) -> None:
    """On one core with the lowest priority, so the clients lose only what the database takes."""
    os.nice(_LOWEST_PRIORITY)
    os.setsid()
    # Linux shares the processor between sessions first, where this file exists.
    if (group := Path("/proc/self/autogroup")).exists():
        group.write_text(str(_LOWEST_PRIORITY))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        settings = {"spark.master": "local[1]", "spark.log.level": "ERROR"}
        spark = spark_session("penstock bench lake", settings)
        _land(spark, dsn, f"{home}/warm", lambda: False)
        pipe.send(None)
        runs = 0
        while pipe.recv():
            rows = 0
            while not pipe.poll():
                runs += 1
                rows += _land(spark, dsn, f"{home}/landed-{runs}", pipe.poll)
            pipe.recv()
            pipe.send(rows)
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        pipe.send(BenchError(str(error)))


def _land(spark: Any, dsn: str, path: str, is_over: Any) -> int:
    """Everything there is, into a new lake."""
    lake, rows = Lake.open_or_create(path, spark), 0
    with Landing(lake, {"dsn": dsn}, _ROWS_AT_ONCE) as landing:
        while not is_over() and (batch := landing.next_batch(lake.state())):
            rows += sum(file.rows for file in landing.land(batch))
    return rows


def queue_while_landing(
    place: Scratch, home: Path, progress: Progress, messages: int, rounds: int, seconds: float
) -> tuple[Pair, list[float]]:
    """Completions a second with landing and without; and the rows a second that it landed."""
    work = Work(System.PENSTOCK, QUEUE, Kind.CYCLE, BATCH)
    pair, landed = Pair(), []
    fill_history(place, progress, messages)
    progress.say("queue_while_landing: starting Spark and the clients")
    with lander(place.dsn, home) as landing, crew(place.dsn, CLIENTS) as clients:
        clients.run(work, seconds)
        for number in range(rounds):
            for lands in (True, False) if number % 2 else (False, True):
                progress.say(f"queue_while_landing: {'landing' if lands else 'not landing'}")
                if lands:
                    landing.start()
                rate = clients.run(work, seconds).rate
                if lands:
                    landed.append(landing.stop() / seconds)
                (pair.left if lands else pair.right).append(rate)
                progress.step()
    place.drain(System.PENSTOCK, QUEUE)
    return pair, landed
