"""Tasks that run in processes: these are imported there."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime

import psycopg

from penstock import App, Reject, RetryPolicy, current
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


@app.task(queue="work", process=True, retry=ONCE)
def outlive(file: str) -> None:
    hang.function(file)


@app.task(queue="work", process=ProcessLimits(max_tasks=2), keep_result=True)
def pid() -> int:
    return os.getpid()


@app.task(
    queue="work",
    process=ProcessLimits(max_processes=1),
    keep_result=True,
    retry=ONCE,
    timeout=60,
)
def take_turns(gate: str) -> int:
    while not os.path.exists(gate):
        time.sleep(0.02)
    return os.getpid()


@app.task(queue="work", process=ProcessLimits(max_memory_mb=300), keep_result=True, retry=ONCE)
def eat(megabytes: int) -> int:
    eaten = bytearray(b"x") * (megabytes * 1024 * 1024)
    while megabytes > 300:
        time.sleep(1)
    return len(eaten)


@app.task(queue="work", process=True, retry=ONCE)
def report(file: str) -> None:
    for percent in range(101):
        current().progress(percent / 200, f"page {percent} of 200")
    current().log(f"message {current().id} in attempt {current().attempt}")
    while not os.path.exists(file):
        time.sleep(0.02)
    current().log("the end")


@app.task(queue="work", keep_result=True)
async def note(text: str) -> str:
    return text


@app.task(queue="work", process=True, keep_result=True, retry=ONCE)
def pass_on(key: str, fails: bool) -> str:
    note.options(key=key).enqueue_with_ack(key)
    if fails:
        raise ValueError(key)
    return current().queue


@app.task(queue="work", process=True, keep_result=True, retry=ONCE)
async def ask(text: str) -> str:
    return await (await note.enqueue(text)).result(60)


@app.task(queue="work", process=True, keep_result=True, retry=ONCE)
def ack_alone(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        connection.execute("insert into effect values (%s)", [current().id])
        note.options(key="acked").enqueue_with_ack("acked")
        current().ack_with_sync(connection, result=7)
    return 7
