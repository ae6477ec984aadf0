"""Tasks that run in processes: these are imported there."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime

from penstock import App, Reject, RetryPolicy
from penstock.worker import ProcessLimits

app = App()
ONCE = RetryPolicy(max_attempts=1)


class OddError(Exception):
    """Cannot be pickled: its arguments are not those of its class."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@app.task(queue="work", process=True, keep_result=True)
def year(when: datetime) -> tuple[int, int]:
    return when.year, os.getpid()


@app.task(queue="work", process=True, keep_result=True)
async def double(n: int) -> int:
    return 2 * n


@app.task(queue="work", process=True)
def triple(n: int) -> int:
    return 3 * n


@app.task(queue="work", process=True, keep_result=True, retry=ONCE)
def fail(how: str) -> None:
    if how == "odd":
        raise OddError(1, 2)
    if how == "reject":
        raise Reject("not here")
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError(how)


@app.task(queue="work", process=True, keep_result=True, retry=ONCE, timeout=1)
def hang(file: str) -> None:
    with open(file, "w", encoding="ascii") as out:
        out.write(str(os.getpid()))
    while True:
        time.sleep(1)


@app.task(queue="work", process=ProcessLimits(max_tasks=2), keep_result=True)
def pid() -> int:
    return os.getpid()


@app.task(queue="work", process=ProcessLimits(max_memory_mb=300), keep_result=True, retry=ONCE)
def eat(megabytes: int) -> int:
    eaten = bytearray(b"x") * (megabytes * 1024 * 1024)
    while megabytes > 300:
        time.sleep(1)
    return len(eaten)
