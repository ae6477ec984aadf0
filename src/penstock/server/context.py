"""What one server process has: every handler finds it as `call.context`, every page as
`request.app.state.context`."""

from __future__ import annotations

import asyncio
from os import getpid
from pathlib import Path
from socket import gethostname

from penstock.command import Command
from penstock.listener import Listener
from penstock.operations.keys import record_activity
from penstock.server.auth import Authenticator, Principal
from penstock.server.board import Board
from penstock.server.bodies import Bodies
from penstock.server.control.runner import Runner
from penstock.server.data.dispatch import Dispatcher
from penstock.server.data.together import Together
from penstock.server.database import Database
from penstock.server.exchange import Exchange
from penstock.server.metrics import Metrics
from penstock.server.pulse import Pulse
from penstock.server.remembered import Remembered
from penstock.server.settings import ServerSettings
from penstock.server.upkeep import Upkeep


class Context:
    """The database, the settings, and what the routes share."""

    def __init__(self, dsn: str, settings: ServerSettings, notes: Path | None = None) -> None:
        self.settings = settings
        self.database = Database(dsn, settings.pool)
        self.auth = Authenticator(self.database, settings.auth_failures)
        self.bodies = Bodies(settings)
        self.metrics = Metrics(self.database, notes)
        self.draining = asyncio.Event()
        self.board = Board(self.database)
        self.pulse = Pulse(self.board)
        self.remembered = Remembered()
        self.listener = Listener(dsn, self.database.run)
        self.together = Together(self.database)
        self.dispatcher = Dispatcher(self.database, self.listener)
        self.upkeep = Upkeep(self.database)
        self.runner = Runner(self.database, self.listener, name=f"{gethostname()}:{getpid()}")

    async def open(self) -> None:
        await self.database.open()
        await self.listener.start()
        self.dispatcher.start()
        self.runner.start()
        self.pulse.start()
        self.metrics.start()
        if self.settings.upkeep == "on":
            self.upkeep.start()

    def drain(self) -> None:
        """The end is near: who waits is answered, and nobody is told to come here any more."""
        self.draining.set()
        self.dispatcher.drain()

    async def close(self) -> None:
        await self.metrics.stop()
        await self.pulse.stop()
        await self.upkeep.stop()
        await self.dispatcher.stop()
        await self.runner.stop()
        await self.together.close()
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
