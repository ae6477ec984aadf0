"""Reports to the database that this worker is alive and what it does, and receives commands."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

import psycopg

from penstock.commands.write import workers
from penstock.db.reconnecting import ReconnectingConnection, ReconnectingConnections
from penstock.errors import PenstockError
from penstock.worker.recent_work import RecentWork, current_runs
from penstock.worker.runner import Runner

logger = logging.getLogger("penstock.worker")

BEAT_SECONDS: Final = 10.0


class Heartbeat:
    def __init__(
        self,
        connection: ReconnectingConnection | ReconnectingConnections,
        worker: str,
        runners: Sequence[Runner],
        stop: Callable[[], None],
    ) -> None:
        self._state = "running"
        self._changed = asyncio.Event()
        self._connection = connection
        self._worker = worker
        self._runners = runners
        self._stop = stop
        self._recent = {runner.queue: RecentWork(runner.counters) for runner in runners}
        self._quiet = False
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
        """Report, from now on and at once, that the worker is draining."""
        self._state = "draining"
        self._changed.set()

    def look(self, worker: str | None) -> None:
        """Handle a command to a worker. None: commands may have been missed."""
        if worker is None or worker == self._worker:
            self._changed.set()

    async def run_once(self) -> None:
        report = workers.beat(self._worker, self._state, self._started_at, self._report())
        self._obey(await self._connection.run(report))

    def _obey(self, command: str | None) -> None:
        """The operator's last command. It is read with each beat, so a command is never lost."""
        if self._state == "draining":
            return
        if command == "stop":
            logger.info("an operator stopped worker %s", self._worker)
            self._stop()
            return
        quiet = command == "quiet"
        if quiet != self._quiet:
            self._quiet = quiet
            logger.info("worker %s %s", self._worker, "is quiet" if quiet else "works again")
            for runner in self._runners:
                runner.set_quiet(quiet)
            self._changed.set()  # the next beat reports it

    async def retire(self) -> None:
        await self._connection.run(workers.retire(self._worker), timeout=2)

    def _report(self) -> dict[str, Any]:
        runs = current_runs(self._runners)
        return {
            "takes_commands": True,
            "quiet": self._quiet,
            "hostname": socket.gethostname(),
            "pid": os.getpid(),
            "version": version("penstock"),
            "queues": {
                runner.queue: {
                    "concurrency": runner.concurrency,
                    "running": len(runner.running),
                    "done": runner.counters.done,
                    "failed": runner.counters.failed,
                    "runs": runs.get(runner.queue, []),
                    **self._recent[runner.queue].measure(),
                }
                for runner in self._runners
            },
        }
