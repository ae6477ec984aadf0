"""The worker: one process that runs the handlers of an application until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Any, Final, Protocol, Self
from uuid import uuid4

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client
from penstock.commands import arguments as check
from penstock.commands import read
from penstock.commands.write.workers import COMMANDS_CHANNEL
from penstock.db import forks
from penstock.db.listener import Listener
from penstock.db.locate import locate
from penstock.db.reconnecting import ReconnectingConnection, ReconnectingConnections
from penstock.errors import ConfigurationError, PermissionDeniedError, QueueNotFoundError
from penstock.model.message import Duration
from penstock.tasks.waiting import ResultWaiter
from penstock.worker.app import App
from penstock.worker.app_arguments import concurrency_of
from penstock.worker.batch_finisher import BatchFinisher
from penstock.worker.claimer import Claimer, Poller
from penstock.worker.handlers import QueueHandlers
from penstock.worker.heartbeat import Heartbeat
from penstock.worker.lease_keeper import LeaseKeeper
from penstock.worker.progress import ProgressReporter
from penstock.worker.result_cleaner import ResultCleaner
from penstock.worker.runner import Runner
from penstock.worker.scheduler import Scheduler
from penstock.worker.settler import Settler

logger = logging.getLogger("penstock.worker")

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
CONCURRENCY: Final = 10
GRACE_SECONDS: Final = 25.0
"""Less than the 30 seconds that most supervisors wait before they kill."""
# The last part of the grace period is for settling. Handlers get the rest.
_RESERVE_SECONDS: Final = 2.0


class Worker:
    """Runs the handlers of an App: `await Worker(app).run()`, or as an async context manager.

    Args:
        app: The application.
        dsn: The database. The default is that of a client.
        queues: The queues to serve. The default is all queues of the app.
        concurrency: The number of messages of a queue that are handled at once, unless its handler
            sets a number.
        grace: The time that running handlers have to finish after SIGTERM.
        name: The name of the worker. The default is host, process id and random letters.
        wake_ups: Whether to listen for notifications. Use False behind a transaction-mode pooler.
        max_bytes: The size of the payloads and headers of all messages that the worker holds. Its
            queues share it equally, and each holds one message at least. The default has no limit.
        prepare_threshold: The number of executions after which a statement is prepared. Use None
            behind a pooler that does not support prepared statements.

    Raises:
        ConfigurationError: The app has no handler, or none for one of `queues`.
        InvalidValueError: An argument has the wrong type or is out of range.
    """

    def __init__(
        self,
        app: App,
        dsn: str | None = None,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int = CONCURRENCY,
        grace: Duration = GRACE_SECONDS,
        name: str | None = None,
        wake_ups: bool = True,
        prepare_threshold: int | None = 5,
        max_bytes: int | None = None,
    ) -> None:
        self._name = name
        if max_bytes is not None and check.whole("max_bytes", max_bytes, check.INT8) < 1:
            raise check.refuse("max_bytes", max_bytes, "1 or more")
        self._max_bytes = max_bytes
        self.grace = check.duration("grace", grace).total_seconds()
        self._handlers = _chosen(app, queues)
        self._app = app
        self._dsn = dsn
        self._concurrency = concurrency_of(concurrency)
        self._wake_ups = wake_ups
        self._prepare_threshold = prepare_threshold
        self._start_over()
        forks.register(self)

    def _start_over(self) -> None:
        self.name = self._name or f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"
        self.runners: list[Runner] = []
        self._connections: list[ReconnectingConnection] = []
        self._claiming: list[asyncio.Task[None]] = []
        self._serving: list[asyncio.Task[None]] = []
        self._stop_asked = asyncio.Event()
        self._hurry_asked = asyncio.Event()
        self._failure: Exception | None = None
        self._has_signals = False

    def _after_fork(self) -> None:
        """In a child process: forget the parent's handlers and connections."""
        if self._has_signals:
            # Otherwise the child would report its signals on the parent's wake-up socket.
            signal.set_wakeup_fd(-1)
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
        forks.abandon(dict(vars(self)))
        self._start_over()

    # Life

    async def run(self, *, signals: bool = True) -> None:
        """Work until `stop` is called, or until SIGTERM or SIGINT.

        Args:
            signals: Whether to handle these signals. Use False in a thread, or if the program does.
        """
        if signals:
            self._handle_signals()
        async with self:
            await self._stop_asked.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Drain and end. A second call does not wait for handlers."""
        if self._stop_asked.is_set():
            self._hurry_asked.set()
        self._stop_asked.set()

    def _stop_once(self) -> None:
        """Drain and end by an operator's command. Its repetition does not hurry the drain."""
        self._stop_asked.set()

    @property
    def settled(self) -> int:
        """How many messages were settled since the start."""
        return self._settler.settled_count

    @property
    def unsettled(self) -> int:
        """How many outcomes are not in the database yet."""
        return self._settler.unsettled

    @property
    def is_listening(self) -> bool:
        """Whether wake-ups arrive. Otherwise the worker polls."""
        return self._listener.healthy

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.drain()

    async def start(self) -> None:
        """Connect, check that the queues exist, and start."""
        dsn = await asyncio.to_thread(locate, self._dsn)
        self.client = AsyncClient(
            dsn, min_size=0, worker=self.name, prepare_threshold=self._prepare_threshold
        )
        # It connects at its first use, if handlers in threads enqueue tasks.
        self.sync_client = Client(
            dsn, min_size=0, worker=self.name, prepare_threshold=self._prepare_threshold
        )
        try:
            self._app.prepare(dsn)
            await self.client.open()
            await self._check_queues()
            await self._bring_schedules()
        except BaseException:
            await self.client.close()
            raise
        self._assemble(dsn)
        await self._listener.start()
        claiming: list[Service] = [self._poller, *self._claimers]
        serving: list[Service] = [
            self._settler,
            self._lease_keeper,
            self._heartbeat,
            self._scheduler,
            self._result_cleaner,
            self._batch_finisher,
            self._reporter,
        ]
        self._claiming = [self._run(each) for each in claiming]
        self._serving = [self._run(each) for each in serving]
        logger.info(
            "worker %s serves %s",
            self.name,
            ", ".join(runner.queue for runner in self.runners),
            extra={"worker": self.name},
        )

    def _run(self, service: Service) -> asyncio.Task[None]:
        """A part that fails ends the worker, so that a supervisor restarts all of it."""

        async def run() -> None:
            try:
                await service.run()
            except Exception as error:
                logger.critical("%s failed", type(service).__name__, exc_info=True)
                self._failure = error
                self._stop_asked.set()

        return asyncio.create_task(run(), name=f"penstock {type(service).__name__.lower()}")

    def _assemble(self, dsn: str) -> None:
        def connection(what: str) -> ReconnectingConnection:
            made = ReconnectingConnection(
                dsn, prepare_threshold=self._prepare_threshold, name=f"penstock {what}"
            )
            self._connections.append(made)
            return made

        # A claim that waits, for example for its turn at a limit, does not delay the others.
        claiming = ReconnectingConnections(
            [connection("worker") for _ in range(min(4, len(self._handlers)))]
        )
        settling = connection("worker")
        self._settler = Settler(settling)
        share = self._max_bytes and max(1, self._max_bytes // len(self._handlers))
        self.runners = [
            Runner(
                served,
                served.concurrency or self._concurrency,
                self._settler,
                self.client,
                self._app.wrap,
                share,
            )
            for served in self._handlers
        ]
        self._listener = Listener(dsn, claiming.run, enabled=self._wake_ups)
        self._waiter = ResultWaiter(self.client.run)
        self._waiter.listen(self._listener)
        self._reporter = ProgressReporter(claiming)
        for runner in self.runners:
            runner.sync_client, runner.waiter = self.sync_client, self._waiter
            runner.reports = self._reporter.reports
        self._claimers = [
            Claimer(runner, claiming, self._listener, self.name) for runner in self.runners
        ]
        self._settler.on_relief = [claimer.look_round for claimer in self._claimers]
        self._poller = Poller(self._claimers, claiming, self._listener, self.name)
        self._lease_keeper = LeaseKeeper(settling, self.runners, self._settler)
        self._heartbeat = Heartbeat(claiming, self.name, self.runners, self._stop_once)
        self._listener.listen(COMMANDS_CHANNEL, self._heartbeat.look)
        self._scheduler = Scheduler(claiming)
        self._result_cleaner = ResultCleaner(claiming)
        self._batch_finisher = BatchFinisher(claiming)
        self._settler.on_members = self._batch_finisher.look_soon

    async def _check_queues(self) -> None:
        there = {queue.name for queue in await self.client.run(read.queues())}
        for served in self._handlers:
            if served.queue.removesuffix(".dlq") not in there:
                raise QueueNotFoundError(
                    f"queue {served.queue!r} does not exist",
                    hint=f"Create it with `penstock queue create {served.queue}`.",
                    queue=served.queue,
                )

    async def _bring_schedules(self) -> None:
        """Create or change the schedules of the code, if this user has the permission."""
        try:
            changed = await self._app.schedules.bring(self.client.run)
        except PermissionDeniedError as error:
            logger.warning(
                "the schedules of the code could not be stored: %s. "
                "Run `penstock schedule sync` as a member of penstock_operator.",
                error,
                extra={"worker": self.name},
            )
        else:
            for name in changed:
                logger.info("schedule %s was created or changed", name)

    async def drain(self) -> None:
        """Stop claiming, give back waiting messages, let handlers finish, settle, and end."""
        ends_at = monotonic() + self.grace
        self._heartbeat.drain()
        for runner in self.runners:
            runner.stop()
        logger.info("worker %s drains", self.name, extra={"worker": self.name})
        await self._end_claiming(ends_at)
        reserve = min(_RESERVE_SECONDS, self.grace / 4)
        await self._handlers_end(ends_at - reserve)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.1, ends_at - monotonic())):
                await self._settler.settled()
                await self._reporter.store()
                await self._batch_finisher.finish()
                await self._heartbeat.retire()
        await self._close()

    async def _end_claiming(self, ends_at: float) -> None:
        """Wait for a claim in progress, because its messages must be given back."""
        self._poller.stop()
        await asyncio.wait(self._claiming, timeout=max(0.1, ends_at - monotonic()))
        for task in self._claiming:
            task.cancel()
        await asyncio.gather(*self._claiming, return_exceptions=True)

    async def _handlers_end(self, until: float) -> None:
        while any(runner.running for runner in self.runners):
            left = until - monotonic()
            if left <= 0 or self._hurry_asked.is_set():
                break
            tasks = [d._task for runner in self.runners for d in runner.running if d._task]
            hurry = asyncio.ensure_future(self._hurry_asked.wait())
            await asyncio.wait([*tasks, hurry], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            hurry.cancel()
        interrupted = [d._task for runner in self.runners for d in runner.running if d._task]
        for runner in self.runners:
            runner.interrupt()
        if interrupted:
            # Cancelled handlers get a moment to clean up.
            await asyncio.wait(interrupted, timeout=min(1.0, self.grace / 8))

    async def _close(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._waiter.close()
        await self._listener.stop()
        for runner in self.runners:
            runner.close()
        for connection in self._connections:
            await connection.close()
        await self.client.close()
        await asyncio.to_thread(self.sync_client.close)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.stop)
        self._has_signals = True


class Service(Protocol):
    """A part of the worker that runs concurrently with the others."""

    async def run(self) -> None: ...


def _chosen(app: Any, queues: Sequence[str] | None) -> list[QueueHandlers]:
    if not isinstance(app, App):
        raise check.refuse("app", app, "an App")
    chosen = list(app) if queues is None else [app[queue] for queue in dict.fromkeys(queues)]
    if not chosen:
        raise ConfigurationError(
            "the app has no handlers",
            hint="Register one with @app.task(queue=...) or @app.handler('queue').",
        )
    return chosen
