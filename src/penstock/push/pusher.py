"""Runs a worker for the enabled subscriptions, and replaces it when they change.

Each server runs one. They share the work as workers do: by claims and leases. So each message is
sent at least once, and by one server at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg

from penstock.commands import read
from penstock.commands.command import Command
from penstock.commands.write.subscriptions import CHANNEL, note_deliveries, set_subscription
from penstock.db.listener import Listener
from penstock.errors import PenstockError
from penstock.model.subscription import Subscription
from penstock.push.endpoint import Endpoint
from penstock.push.http_sender import HttpSender
from penstock.push.networks import AllowedNetworks
from penstock.push.signing import new_signing_secret
from penstock.secrets import SecretBox
from penstock.worker.app import App
from penstock.worker.worker import Worker

log: Final = logging.getLogger("penstock.push")
LOOK_SECONDS: Final = 10.0
NOTE_SECONDS: Final = 1.0
# Running requests get this time at shutdown. Messages that were not sent are given back.
GRACE_SECONDS: Final = 15.0
Run = Callable[[Command[Any]], Awaitable[Any]]


class Pusher:
    """Sends messages from `start` to `stop`. `run` runs commands on the database.

    `max_bytes` limits the messages that are held.
    """

    def __init__(
        self,
        dsn: str | None,
        run: Run,
        listener: Listener,
        name: str,
        *,
        box: SecretBox,
        allowed: AllowedNetworks,
        max_bytes: int,
    ) -> None:
        self._dsn = dsn
        self._database_run = run
        self._listener = listener
        self._name = f"push:{name}"
        self._box = box
        self._allowed = allowed
        self._max_bytes = max_bytes
        self._changed = asyncio.Event()
        self._serving: _Serving | None = None
        self._stopping: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._listener.listen(CHANNEL, lambda _: self._changed.set())
        self._loop = asyncio.create_task(self._work(), name="penstock push")

    async def stop(self) -> None:
        """Stop sending. Running requests finish, and other messages are given back."""
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
        self._replace(None)
        if self._stopping:
            await asyncio.wait(self._stopping)

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._look()
            except (PenstockError, psycopg.Error, OSError) as error:
                log.warning("push delivery could not be set up: %s", error)
            ends = asyncio.get_running_loop().time() + LOOK_SECONDS
            while not self._changed.is_set() and asyncio.get_running_loop().time() < ends:
                with suppress(TimeoutError):
                    async with asyncio.timeout(NOTE_SECONDS if self._serving else LOOK_SECONDS):
                        await self._changed.wait()
                if self._serving is not None:
                    await self._note(self._serving)

    async def _look(self) -> None:
        """Compare the subscriptions with the served ones, and serve new ones."""
        found = await self._database_run(read.subscriptions())
        queues = {queue.name for queue in await self._database_run(read.queues())}
        enabled = [s for s in found if s.enabled and s.queue.removesuffix(".dlq") in queues]
        serving = self._serving
        if serving is not None and serving.has_failed:
            self._replace(None)
        version = tuple((s.name, s.queue, s.version) for s in enabled)
        if self._serving is not None and self._serving.version == version:
            return
        endpoints = [each for s in enabled if (each := await self._endpoint_secrets(s))]
        if not endpoints:
            self._replace(None)
            return
        sender = HttpSender(self._allowed)
        made = _Serving(version, endpoints, sender, self._dsn, self._name, self._max_bytes)
        await made.start()
        self._replace(made)

    async def _endpoint_secrets(
        self, subscription: Subscription
    ) -> tuple[Subscription, list[str]] | None:
        """The subscription and the signer of its requests. A missing secret is created."""
        try:
            if subscription.secret is not None:
                return subscription, self._box.open(subscription.secret).split()
            secret = new_signing_secret()
            change = {"secret": self._box.seal(secret)}
            await self._database_run(set_subscription(subscription.name, change))
        except PenstockError as error:
            await self._database_run(
                note_deliveries(subscription.name, subscription.version, 0, 0, error.message)
            )
        return None  # it is examined again after the change

    def _replace(self, serving: _Serving | None) -> None:
        """The old worker drains while the new one works."""
        old, self._serving = self._serving, serving
        if old is not None:
            stopping = asyncio.create_task(self._stop(old))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    async def _stop(self, serving: _Serving) -> None:
        await serving.stop()
        await self._note(serving)

    async def _note(self, serving: _Serving) -> None:
        for endpoint in serving.endpoints:
            delivered, failed, error = endpoint.delivered, endpoint.failed, endpoint.last_error
            if not delivered and not failed and endpoint.gone is None:
                continue
            endpoint.delivered = endpoint.failed = 0
            endpoint.last_error = None
            command = note_deliveries(
                endpoint.subscription.name,
                endpoint.subscription.version,
                delivered,
                failed,
                error or endpoint.gone,
                endpoint.gone,
            )
            try:
                await self._database_run(command)
            except (PenstockError, psycopg.Error):
                endpoint.delivered += delivered
                endpoint.failed += failed
                endpoint.last_error = endpoint.last_error or error


class _Serving:
    """A worker for some subscriptions, as they were when it started."""

    def __init__(
        self,
        version: tuple[tuple[str, str, int], ...],
        subscriptions: Sequence[tuple[Subscription, list[str]]],
        sender: HttpSender,
        dsn: str | None,
        name: str,
        max_bytes: int,
    ) -> None:
        self.version = version
        self._sender = sender
        self.endpoints = [Endpoint(each, secrets, sender) for each, secrets in subscriptions]
        app = App()
        for endpoint in self.endpoints:
            served = endpoint.subscription
            app.handler(served.queue, concurrency=served.concurrency)(endpoint.handle)
        self._worker = Worker(app, dsn, name=name, grace=GRACE_SECONDS, max_bytes=max_bytes)

    async def start(self) -> None:
        try:
            await self._worker.start()
        except BaseException:
            await self._sender.close()
            raise

    @property
    def has_failed(self) -> bool:
        """Whether the worker has ended, by itself or because it was stopped."""
        return self._worker._stop_asked.is_set()

    async def stop(self) -> None:
        for endpoint in self.endpoints:
            endpoint.stop()
        await self._worker.drain()
        await self._sender.close()
