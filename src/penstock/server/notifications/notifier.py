"""Announces findings to the configured destinations, on one server at a time.

The servers of a database compete for a lease in it. Its holder compares the findings with those
that were announced, which the database stores for each destination, and sends what has changed. An
announcement is stored once the destination has taken it. So a destination that is down gets the
message when it is back, and a server that dies leaves the rest to the next holder of the lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from secrets import token_hex
from time import monotonic
from typing import Final

from penstock.commands.write.monitoring import (
    announcements,
    lead_notifications,
    release_notifications,
    store_announcements,
)
from penstock.errors import PenstockError
from penstock.model.monitoring import Announcement
from penstock.server.database import Database
from penstock.server.monitoring.snapshots import SnapshotCache
from penstock.server.notifications.bodies import Bodies
from penstock.server.notifications.changes import Changes, compare
from penstock.server.notifications.delivery import Channel, Destination
from penstock.server.notifications.settings import NotificationSettings
from penstock.server.ui.diagnosis import diagnose
from penstock.server.ui.findings import Finding

log: Final = logging.getLogger("penstock.server")
LOOK_SECONDS: Final = 15.0
LEASE_SECONDS: Final = 60
# A database that is unavailable for a shorter time is not reported.
AWAY_SECONDS: Final = 60.0
DATABASE: Final = Finding(
    kind="database",
    subject="",
    severity="critical",
    title="The database does not answer",
    text="The server cannot reach PostgreSQL.",
    href="/system",
)


class Notifier:
    """Looks, compares and sends, from `start` to `stop`."""

    def __init__(
        self,
        database: Database,
        snapshots: SnapshotCache,
        settings: NotificationSettings,
        name: str,
        *,
        redact: bool = False,
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._settings = settings
        # Two servers may have the same host name and process id, for example in two containers.
        self._holder = f"{name}:{token_hex(8)}"
        self._bodies = Bodies(name.partition(":")[0], settings.ui, redact)
        self.channels = [Channel(each) for each in destinations(settings)]
        self._task: asyncio.Task[None] | None = None
        self._leads = False
        self._away_since: float | None = None
        self._away_at = datetime.now(UTC)
        self._told_away: set[str] = set()

    def start(self) -> None:
        if self._settings.enabled:
            self._task = asyncio.create_task(self._work(), name="penstock notifications")

    async def stop(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if self._leads:
            with suppress(PenstockError):  # the lease expires anyway
                await self._database.run(release_notifications(self._holder))

    async def _work(self) -> None:
        while True:
            try:
                await self.run_once()
            except Exception as error:
                log.warning("notifications failed: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def run_once(self) -> None:
        """Look once, unless another server does, and send the changes."""
        try:
            self._leads = await self._database.run(lead_notifications(self._holder, LEASE_SECONDS))
            if not self._leads:
                return
            snapshot = await self._snapshots.look()
        except PenstockError:
            await self._tell_away()
            return
        await self._tell_back()
        findings = [
            each
            for each in diagnose(snapshot)
            if not each.is_muted and self._settings.includes(each.severity)
        ]
        for channel in self.channels:
            if channel.is_ready:
                await self._bring_up_to_date(channel, findings)

    async def _bring_up_to_date(self, channel: Channel, findings: Sequence[Finding]) -> None:
        name, now = channel.destination.name, datetime.now(UTC)
        announced = await self._database.run(announcements(name))
        changes = compare(findings, announced, now)
        if not changes.worth_a_message:
            stored = changes.kept
        elif await channel.send(self._body(name, changes, now)):
            stored = changes.after(now)
        else:
            return
        if stored != announced:
            await self._database.run(store_announcements(name, stored))

    async def _tell_away(self) -> None:
        """The server that announced the findings last announces that the database is unavailable.

        That cannot be stored, so it is announced at most once for each outage.
        """
        if self._away_since is None:
            self._away_since, self._away_at = monotonic(), datetime.now(UTC)
        if not self._leads or monotonic() - self._away_since < AWAY_SECONDS:
            return
        changes = Changes([DATABASE], [], [])
        for channel in self.channels:
            name = channel.destination.name
            if name not in self._told_away and channel.is_ready:
                body = self._body(name, changes, self._away_at)
                if await channel.send(body):
                    self._told_away.add(name)

    async def _tell_back(self) -> None:
        self._away_since = None
        announced = DATABASE
        over = Announcement(
            announced.identity, announced.kind, announced.severity, announced.title, self._away_at
        )
        for channel in self.channels:
            name = channel.destination.name
            if name in self._told_away and channel.is_ready:
                body = self._body(name, Changes([], [over], []), datetime.now(UTC))
                if await channel.send(body):
                    self._told_away.discard(name)

    def _body(self, destination: str, changes: Changes, now: datetime) -> bytes:
        write = self._bodies.slack if destination == "slack" else self._bodies.webhook
        return write(changes, now)


def destinations(settings: NotificationSettings) -> list[Destination]:
    """The receivers of messages."""
    found: list[Destination] = []
    if settings.webhook is not None:
        found.append(Destination("webhook", settings.webhook, settings.secret))
    if settings.slack is not None:
        found.append(Destination("slack", settings.slack))
    return found
