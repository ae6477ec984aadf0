"""Claims messages: at a wake-up, while there are more, and periodically."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

import psycopg

from penstock.commands.write import workers
from penstock.db.listener import Listener
from penstock.db.reconnecting import ReconnectingConnections
from penstock.errors import DatabaseUnavailableError, PenstockError, QueueNotFoundError
from penstock.worker.runner import Runner

logger = logging.getLogger("penstock.worker")

# The delays between the looks that follow the last message. After them, wake-ups and the poller
# take over. The first delays are short: where enqueuers wait for the disk, a stream pauses for some
# milliseconds, and a second look after 5 of them reduced the p99 of the pickup at 800 a second from
# 7.6 ms to 3.7.
_LINGER: Final = (0.002, 0.002, 0.003, 0.005, 0.01, 0.03, 0.06)
# Enqueuers are asked to notify if the next look is later than this.
_PATIENCE: Final = 0.008
# A claim that returned fewer messages than it wanted is not repeated at once. A claim of several
# messages costs hardly more than a claim of one.
_BREATH: Final = 0.001
# The timeout of a claim. Messages of an interrupted claim cannot be claimed until their lease
# expires.
_TIMEOUT: Final = 10.0
POLL_SECONDS: Final = 2.5
# The first interval between polls without wake-ups. It grows while they find nothing.
POLL_FASTEST: Final = 0.02
POLL_SLOWEST: Final = 1.25


class Claimer:
    """Claims for one queue while there is room and there may be messages."""

    def __init__(
        self, runner: Runner, connection: ReconnectingConnections, listener: Listener, worker: str
    ) -> None:
        self.runner = runner
        self._connection = connection
        self._worker = worker
        self._subscription = listener.subscribe(runner.queue, self._woken)
        self._changed = asyncio.Event()
        self._look_at: float | None = 0.0  # the time of the next look; None: at a wake-up
        self._lingered = len(_LINGER)
        self._in_vain = 0
        self._is_notified = False
        runner.on_room = self.look_round = self._changed.set
        # The next message of a group, or one that a limit held back, may be ready now.
        runner.on_settled = self.look

    def look(self) -> None:
        """Look again as soon as there is room."""
        self._look_at = 0.0
        self._changed.set()

    async def run(self) -> None:
        """Run until the runner stops. Messages of a claim in progress are given back."""
        pause = 0.1
        while await self._is_time():
            try:
                await self._claim()
                pause = 0.1
            except (PenstockError, psycopg.Error) as error:
                await self._failed(error, pause)
                pause = min(pause * 2, 2.0)

    async def _is_time(self) -> bool:
        """Wait until there is room and a reason to look. False when the runner has stopped."""
        while not self.runner.stopping:
            self._changed.clear()
            has_room = self.runner.room > 0
            if has_room and self._look_at is not None and self._look_at <= monotonic():
                return True
            timeout = self._look_at - monotonic() if has_room and self._look_at else None
            idle = has_room and (timeout is None or timeout > _PATIENCE)
            with self._attending(idle), suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
        return False

    @contextmanager
    def _attending(self, idle: bool) -> Iterator[None]:
        """Ask enqueuers to notify while there is nothing else to do."""
        if not idle:
            yield
            return
        self._subscription.rest()
        try:
            yield
        finally:
            self._subscription.waiting -= 1

    async def _claim(self) -> None:
        want = self.runner.reserve()
        if want is None:
            return
        self._look_at = None
        try:
            rows = await self._connection.run(
                workers.claim_rows(want, self._worker), timeout=_TIMEOUT
            )
        except BaseException:
            self.runner.release(want)
            self._look_at = 0.0
            raise
        self.runner.take(want, rows)
        self._plan(len(rows), want.count)

    def _plan(self, found: int, wanted: int) -> None:
        """Set the time of the next look. A wake-up that arrived in the meantime is kept."""
        if found:
            self._lingered = self._in_vain = 0
            pause = 0.0 if found == wanted else _BREATH
        elif self._lingered < len(_LINGER):
            pause = _LINGER[self._lingered]
            self._lingered += 1
        else:
            return
        if self._look_at is None:
            self._look_at = monotonic() + pause

    def _woken(self, notified: bool) -> None:
        pause = 0.0
        if notified:
            # If many workers wait, most of them look too late. They wait a little, and leave the
            # message to the worker that was quick recently.
            pause = random.uniform(0, min(0.05, 0.001 * 2 ** min(self._in_vain, 10) - 0.001))
            self._in_vain += 1
        at = monotonic() + pause
        if self._look_at is None or at < self._look_at:
            self._look_at = at
        self._changed.set()

    async def _failed(self, error: Exception, pause: float) -> None:
        self._look_at = 0.0
        if isinstance(error, QueueNotFoundError):
            pause = 5.0
        if not isinstance(error, DatabaseUnavailableError) or pause > 1:
            logger.warning(
                "claim failed, trying again: %s", error, extra={"queue": self.runner.queue}
            )
        await asyncio.sleep(pause * random.uniform(0.5, 1))


class Poller:
    """Looks at all queues in one statement, for messages that caused no wake-up."""

    def __init__(
        self,
        claimers: Sequence[Claimer],
        connection: ReconnectingConnections,
        listener: Listener,
        worker: str,
    ) -> None:
        self._claimers = claimers
        self._connection = connection
        self._listener = listener
        self._worker = worker
        self._pause = POLL_FASTEST
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self._stopped.set()

    async def run(self) -> None:
        """Run until stopped. A look in progress is finished."""
        while True:
            pause = POLL_SECONDS if self._listener.healthy else self._pause
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.9, 1)):
                    await self._stopped.wait()
                    return
            try:
                found = await self.run_once()
            except (PenstockError, psycopg.Error) as error:
                logger.debug("poll failed: %s", error)
                found = False
            self._pause = POLL_FASTEST if found else min(self._pause * 1.5, POLL_SLOWEST)

    async def run_once(self) -> bool:
        """Look at every queue that has room. Returns whether there were any messages."""
        wants = {
            claimer.runner.queue: (claimer, want)
            for claimer in self._claimers
            if (want := claimer.runner.reserve_for_look()) is not None
        }
        if not wants:
            return False
        try:
            command = workers.look([want for _, want in wants.values()], self._worker)
            found = await self._connection.run(command, timeout=_TIMEOUT)
        except BaseException:
            for claimer, want in wants.values():
                claimer.runner.release(want)
            raise
        for queue, (claimer, want) in wants.items():
            claimer.runner.take(want, found[queue].rows)
            if found[queue].rows:
                claimer.look()
        return any(each.rows for each in found.values())
