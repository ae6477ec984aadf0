"""The shared objects of one server process: `call.context` in handlers, and
`request.app.state.context` in pages.
"""

from __future__ import annotations

import asyncio
from os import getpid
from pathlib import Path
from socket import gethostname

from penstock.commands.command import Command
from penstock.commands.write.keys import record_activity
from penstock.db.listener import Listener
from penstock.push.pusher import Pusher
from penstock.server.api.call_batching import CallBatching
from penstock.server.api.long_polls import LongPolls
from penstock.server.api.settle_signal import SettleSignal
from penstock.server.auth.authentication import Authenticator
from penstock.server.auth.principal import Principal
from penstock.server.auth.sign_on import make_openid_connect
from penstock.server.background import Background
from penstock.server.cache import TimedCache
from penstock.server.control.bulk_runner import BulkRunner
from penstock.server.control.monitor import ServiceMonitor
from penstock.server.control.runner import Runner
from penstock.server.control.targets import Targets
from penstock.server.database import Database
from penstock.server.monitoring.metrics import Metrics
from penstock.server.monitoring.snapshots import SnapshotCache
from penstock.server.settings import ServerSettings
from penstock.server.transport.exchange import Exchange
from penstock.server.transport.request_bodies import Bodies
from penstock.server.transport.unsent_answers import UnsentAnswers


class Context:
    """The database, the settings, and the objects that routes share."""

    def __init__(self, dsn: str, settings: ServerSettings, notes: Path | None = None) -> None:
        self.settings = settings
        self.database = Database(dsn, settings.pool)
        self.auth = Authenticator(self.database, settings.auth_failures, settings.sso_roles)
        self.sign_on = make_openid_connect(settings)
        self.bodies = Bodies(settings)
        self.answers = UnsentAnswers(settings)
        self.metrics = Metrics(self.database, notes)
        self.draining = asyncio.Event()
        self.snapshots = SnapshotCache(self.database)
        self.cache = TimedCache()
        self.listener = Listener(dsn, self.database.run)
        self.call_batching = CallBatching(self.database, settings.answer_bytes)
        self.long_polls = LongPolls(self.database, self.listener, settings.answer_bytes)
        self.settle_signal = SettleSignal()
        self.background = Background(self.database)
        self.name = f"{gethostname()}:{getpid()}"
        self.targets = Targets(self.database, settings.addresses)
        self.monitor = ServiceMonitor(self.targets, settings.service_wait_seconds)
        self.runner = Runner(self.database, self.listener, self.name, self.monitor)
        self.bulk_runner = BulkRunner(self.database, self.listener, self.name, self.monitor)
        self.pusher = Pusher(
            dsn,
            self.database.run,
            self.listener,
            self.name,
            box=settings.addresses.box,
            allowed=settings.push_networks,
            max_bytes=settings.push_bytes,
        )

    async def open(self) -> None:
        await self.database.open()
        await self.listener.start()
        self.long_polls.start()
        self.monitor.start()
        self.runner.start()
        self.bulk_runner.start()
        if self.settings.push == "on":
            self.pusher.start()
        self.metrics.start()
        self.auth.uses.start()
        if self.settings.upkeep == "on":
            self.background.start()

    def count_settled(self, count: int) -> None:
        self.metrics.moved("settled", count)
        self.settle_signal.wake()

    def drain(self) -> None:
        """Begin to stop: answer waiting consumers, and report not ready."""
        self.draining.set()
        self.settle_signal.wake()
        self.long_polls.drain()

    async def close(self) -> None:
        await self.auth.uses.stop()
        if self.sign_on is not None:
            await self.sign_on.close()
        await self.metrics.stop()
        await self.background.stop()
        await self.long_polls.stop()
        await self.pusher.stop()
        await self.runner.stop()
        await self.bulk_runner.stop()
        await self.monitor.stop()
        await self.targets.close()
        await self.call_batching.close()
        await self.listener.stop()
        await self.database.close()

    def activity(
        self,
        principal: Principal,
        exchange: Exchange,
        act: str,
        target: str | None,
        **details: object,
    ) -> Command[int]:
        """The record of an operator's action, to be written in the same transaction."""
        return record_activity(
            principal.name,
            act,
            target,
            {name: value for name, value in details.items() if value is not None},
            request_id=exchange.request_id,
            address=exchange.address,
        )
