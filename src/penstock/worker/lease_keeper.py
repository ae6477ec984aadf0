"""Extends the leases that this process holds, and cancels the handlers of lost leases."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from time import monotonic
from typing import Final

import psycopg

from penstock.commands import write
from penstock.db.reconnecting import ReconnectingConnection
from penstock.errors import PenstockError
from penstock.worker.delivery import Delivery
from penstock.worker.runner import Runner
from penstock.worker.settler import Settler

logger = logging.getLogger("penstock.worker")

# A lease is extended when half of it is over. That leaves time for some failures.
_SHARE: Final = 0.5
_BATCH: Final = 1000


class LeaseKeeper:
    """Checks all leases several times in each lease. It runs no statement if none is due."""

    def __init__(
        self, connection: ReconnectingConnection, runners: Sequence[Runner], settler: Settler
    ) -> None:
        self._connection = connection
        self._runners = runners
        self._settler = settler

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._pause())
            try:
                await self.run_once()
            except (PenstockError, psycopg.Error) as error:
                logger.warning("leases could not be extended, trying again: %s", error)

    def _pause(self) -> float:
        leases = [d._lease_seconds for runner in self._runners for d in runner.held()]
        # With no lease held, the next one may last only a second.
        return min(1.0, min(leases, default=1.0) / 8)

    async def run_once(self) -> None:
        """Extend leases that are due, and cancel handlers of lost leases."""
        now = monotonic()
        due: dict[int, list[Delivery]] = defaultdict(list)
        for runner in self._runners:
            for delivery in runner.held():
                if delivery._held_until <= now:
                    self._lose(runner, delivery)
                elif delivery._held_until - now < delivery._lease_seconds * _SHARE:
                    due[_whole(delivery)].append(delivery)
        for delivery in self._settler.held():
            if 0 < delivery._held_until - now < delivery._lease_seconds * _SHARE:
                due[_whole(delivery)].append(delivery)
        for lease_seconds, deliveries in due.items():
            for start in range(0, len(deliveries), _BATCH):
                await self._extend(deliveries[start : start + _BATCH], lease_seconds)

    async def _extend(self, deliveries: list[Delivery], lease_seconds: int) -> None:
        asked_at = monotonic()
        pairs = [(delivery.id, delivery.token) for delivery in deliveries]
        command = write.extend_many(pairs, lease_seconds)
        extended = await self._connection.run(command, timeout=max(1.0, lease_seconds / 4))
        for delivery in deliveries:
            if delivery.id in extended:
                delivery._held_until = asked_at + delivery._lease_seconds
            elif delivery in delivery._runner.running or delivery in delivery._runner.waiting:
                self._lose(delivery._runner, delivery)

    def _lose(self, runner: Runner, delivery: Delivery) -> None:
        logger.warning(
            "the lease on message %d was lost",
            delivery.id,
            extra={"queue": delivery.queue, "id": delivery.id, "attempt": delivery.attempt},
        )
        runner.lose(delivery)


def _whole(delivery: Delivery) -> int:
    """The duration that the lease had at first. The setting of the queue may have changed since."""
    return max(1, round(delivery._lease_seconds))
