"""What one server process has: every handler finds it as `call.context`, every page as
`request.app.state.context`."""

from __future__ import annotations

import asyncio
from os import getpid
from pathlib import Path
from socket import gethostname

from penstock.commands.command import Command
from penstock.commands.write.keys import record_activity
from penstock.db.listener import Listener
from penstock.server.api.batches import Batches
from penstock.server.api.long_polls import LongPolls
from penstock.server.auth.authentication import Authenticator, Principal
from penstock.server.background import Background
from penstock.server.cache import TimedCache
from penstock.server.control.runner import Runner
from penstock.server.database import Database
from penstock.server.monitoring.metrics import Metrics
from penstock.server.monitoring.rate_history import RateHistory
from penstock.server.monitoring.snapshots import SnapshotCache
from penstock.server.settings import ServerSettings
from penstock.server.transport.exchange import Exchange
from penstock.server.transport.request_bodies import Bodies


class Context:
    """The database, the settings, and what the routes share."""

    def __init__(self, dsn: str, settings: ServerSettings, notes: Path | None = None) -> None:
        self.settings = settings
        self.database = Database(dsn, settings.pool)
        self.auth = Authenticator(self.database, settings.auth_failures)
        self.bodies = Bodies(settings)
        self.metrics = Metrics(self.database, notes)
        self.draining = asyncio.Event()
        self.snapshots = SnapshotCache(self.database)
        self.rate_history = RateHistory(self.snapshots)
        self.cache = TimedCache()
        self.listener = Listener(dsn, self.database.run)
        self.batches = Batches(self.database)
        self.long_polls = LongPolls(self.database, self.listener)
        self.background = Background(self.database)
        self.name = f"{gethostname()}:{getpid()}"
        self.runner = Runner(self.database, self.listener, self.name)

    async def open(self) -> None:
        await self.database.open()
        await self.listener.start()
        self.long_polls.start()
        self.runner.start()
        self.rate_history.start()
        self.metrics.start()
        if self.settings.upkeep == "on":
            self.background.start()

    def drain(self) -> None:
        """The end is near: who waits is answered, and nobody is told to come here any more."""
        self.draining.set()
        self.long_polls.drain()

    async def close(self) -> None:
        await self.metrics.stop()
        await self.rate_history.stop()
        await self.background.stop()
        await self.long_polls.stop()
        await self.runner.stop()
        await self.batches.close()
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
        """The note of an operator's act, to be run with it, in one transaction."""
        return record_activity(
            principal.name,
            act,
            target,
            {name: value for name, value in details.items() if value is not None},
            request_id=exchange.request_id,
            address=exchange.address,
        )
