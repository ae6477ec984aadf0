"""Runs one adapter in a separate process, with commands on stdin and responses on stdout.

    python -m penstock_benchmarks.peers.host ADAPTER ROLE DSN

A line is a JSON object: {"id": 1, "do": "load", ...} is answered by {"id": 1, "ok": ...} or
{"id": 1, "error": "..."}. host.mjs speaks the same for the adapters in JavaScript.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import json
import logging
import sys
import time
import traceback
from typing import Any

from penstock_benchmarks.peers.adapter import Payload
from penstock_benchmarks.peers.recorder import Recorder

PAYLOAD_BYTES = 200
LOAD_BATCH = 1000
# While the database writes the one batch, the producer makes the next.
LOAD_TASKS = 2
# Enqueues of a paced run that may be under way at once: a slow one does not hold up the next.
PACE_TASKS = 32


def message(number: int, at: float) -> Payload:
    """200 bytes of JSON: its number, when its enqueue was called, and padding."""
    bare = {"n": number, "at": round(at, 6), "pad": ""}
    bare["pad"] = "x" * (PAYLOAD_BYTES - len(json.dumps(bare)))
    return bare


class Host:
    def __init__(self, adapter: Any, role: str) -> None:
        self.adapter = adapter
        self.role = role
        self.recorder = Recorder()

    async def do_describe(self) -> dict[str, Any]:
        adapter = self.adapter
        return {
            "kind": adapter.kind,
            "version": adapter.version()
            if hasattr(adapter, "version")
            else importlib.metadata.version(adapter.package),
            "relations": list(adapter.relations),
            "settings": adapter.settings(),
            "parts": getattr(adapter, "parts", None),
        }

    async def do_install(self) -> None:
        await self.adapter.install()

    async def do_open(self) -> None:
        await self.adapter.open(self.role)

    async def do_load(self, first: int, count: int, delay_seconds: int, seconds: float) -> int:
        """Enqueue so many with the call for many, or as many as the time allows."""
        until, number, last, loaded = time.monotonic() + seconds, first, first + count, 0

        async def some() -> None:
            nonlocal number, loaded
            while number < last and time.monotonic() < until:
                start, number = number, min(number + LOAD_BATCH, last)
                payloads = [message(n, time.monotonic()) for n in range(start, number)]
                await self.adapter.enqueue_many(payloads, delay_seconds)
                loaded += len(payloads)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(LOAD_TASKS):
                tasks.create_task(some())
        return loaded

    async def do_pace(self, first: int, rate: float, seconds: float) -> dict[str, Any]:
        """One by one, at a fixed rate. `unsure` are messages whose commit is unknown."""
        start, count, sent = time.monotonic() + 0.05, round(rate * seconds), 0
        free = asyncio.Semaphore(PACE_TASKS)
        unsure: list[int] = []

        async def one(number: int) -> None:
            try:
                await self.adapter.enqueue(message(number, time.monotonic()))
            except Exception:
                unsure.append(number)
                await asyncio.sleep(0.05)
            finally:
                free.release()

        async with asyncio.TaskGroup() as tasks:
            # Who cannot keep up enqueues fewer, and not for longer.
            while sent < count and time.monotonic() < start + seconds:
                if (pause := start + sent / rate - time.monotonic()) > 0:
                    await asyncio.sleep(pause)
                await free.acquire()
                tasks.create_task(one(first + sent))
                sent += 1
        return {"count": sent, "unsure": unsure, "offered": sent / seconds}

    async def do_pour(self, first: int, rate: float, seconds: float) -> dict[str, Any]:
        """Many at a time, 25 times a second, at a fixed rate on the whole."""
        start, sent, batches = time.monotonic(), 0, 0
        while (elapsed := time.monotonic() - start) < seconds:
            due = round(rate * elapsed) - sent
            while due > 0:
                size = min(LOAD_BATCH, due)
                at = time.monotonic()
                payloads = [message(first + sent + n, at) for n in range(size)]
                await self.adapter.enqueue_many(payloads, 0)
                sent, due = sent + size, due - size
            batches += 1
            await asyncio.sleep(max(0.0, start + batches * 0.04 - time.monotonic()))
        return {"count": sent, "offered": sent / (time.monotonic() - start)}

    async def do_unfinished(self) -> bool:
        return await self.adapter.unfinished()

    async def do_purge(self) -> None:
        await self.adapter.purge()

    async def do_start(
        self,
        concurrency: int,
        handler_ms: float,
        expect: int,
        mark: int,
        ledger: str | None,
        rescue_seconds: int | None,
    ) -> None:
        self.recorder = recorder = Recorder(expect, mark, ledger)
        take, seconds = recorder.take, handler_ms / 1000

        async def nothing(payload: Payload) -> None:
            take(payload["n"], payload["at"])

        async def a_moment(payload: Payload) -> None:
            take(payload["n"], payload["at"])
            await asyncio.sleep(seconds)

        async def to_the_end(payload: Payload) -> None:
            await asyncio.sleep(seconds)
            take(payload["n"], payload["at"])

        handle = nothing if not handler_ms else a_moment if ledger is None else to_the_end
        await self.adapter.start(concurrency, handle, rescue_seconds)

    async def do_wait(self, seconds: float) -> dict[str, Any]:
        await self.recorder.wait(seconds)
        return self.recorder.report()

    async def do_progress(self) -> dict[str, Any]:
        return self.recorder.report()

    async def do_latencies(self, after: float, before: float) -> dict[str, Any]:
        return self.recorder.latencies(after, before)

    async def do_cpu(self) -> float:
        return time.process_time()

    async def do_stop(self) -> None:
        await self.adapter.stop()

    async def do_close(self) -> None:
        await self.adapter.close()


async def serve(host: Host) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks = set()
    while line := await reader.readline():
        task = asyncio.create_task(answer(host, json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def answer(host: Host, command: dict[str, Any]) -> None:
    number, verb = command.pop("id"), command.pop("do")
    try:
        reply = {"id": number, "ok": await getattr(host, f"do_{verb}")(**command)}
    except Exception as error:
        traceback.print_exc()
        reply = {"id": number, "error": f"{type(error).__name__}: {error}"}
    OUT.write(json.dumps(reply) + "\n")
    OUT.flush()


def main() -> None:
    name, role, dsn = sys.argv[1:]
    logging.basicConfig(level=logging.ERROR)
    adapter = importlib.import_module(f"penstock_benchmarks.peers.adapters.{name}").Adapter(dsn)
    run: Any = asyncio.run
    if adapter.uvloop:
        import uvloop

        run = uvloop.run
    run(serve(Host(adapter, role)))


# Answers have stdout to themselves: what a peer prints goes to stderr.
OUT, sys.stdout = sys.stdout, sys.stderr

if __name__ == "__main__":
    main()
