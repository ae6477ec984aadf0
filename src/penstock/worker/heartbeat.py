"""Says in the database that this worker is alive, and what it does."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

import psycopg

from penstock.commands.write import workers
from penstock.db.reconnecting import ReconnectingConnection, ReconnectingConnections
from penstock.errors import PenstockError
from penstock.worker.runner import Runner

logger = logging.getLogger("penstock.worker")

BEAT_SECONDS: Final = 10.0


class Heartbeat:
    def __init__(
        self,
        connection: ReconnectingConnection | ReconnectingConnections,
        worker: str,
        runners: Sequence[Runner],
    ) -> None:
        self._state = "running"
        self._changed = asyncio.Event()
        self._connection = connection
        self._worker = worker
        self._runners = runners
        self._started_at = datetime.now(UTC)

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except (PenstockError, psycopg.Error) as error:
                logger.debug("no heartbeat: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._changed.wait()
            self._changed.clear()

    def drain(self) -> None:
        """From now on, and at once, it says that the worker drains."""
        self._state = "draining"
        self._changed.set()

    async def run_once(self) -> None:
        command = workers.beat(self._worker, self._state, self._started_at, self._report())
        await self._connection.run(command)

    async def retire(self) -> None:
        await self._connection.run(workers.retire(self._worker), timeout=2)

    def _report(self) -> dict[str, Any]:
        return {
            "hostname": socket.gethostname(),
            "pid": os.getpid(),
            "version": version("penstock"),
            "queues": {
                runner.queue: {
                    "concurrency": runner.concurrency,
                    "running": len(runner.running),
                    "done": runner.counters.done,
                    "failed": runner.counters.failed,
                }
                for runner in self._runners
            },
        }
