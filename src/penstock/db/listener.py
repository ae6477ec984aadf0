"""Wake-ups: consumers learn of messages within milliseconds, and cost nothing while they wait.

    listener = Listener(dsn, client.run)        # one for each process, for all queues
    await listener.start()
    with listener.subscribe("emails") as mail:
        while not (leases := await client.claim("emails", 10)) and time_is_left():
            await mail.wait(timeout=2)          # True: look again; False: the time is over

A wake-up is a hint that a claim may find something, never a promise, and one can get lost (see
functions/enqueue/wake.sql): also look every second or two. Where no wake-ups arrive, as
behind a transaction-mode pooler, `healthy` is False and `wait` returns four times a second.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, Protocol, TypeVar
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection, sql

from penstock.commands.command import Command
from penstock.commands.write import workers
from penstock.db.execute import Notifications, notifications
from penstock.db.reconnecting import ReconnectingConnection
from penstock.db.subscriptions import Channel, SubscribedQueue, Subscription
from penstock.errors import PenstockError

T = TypeVar("T")
logger = logging.getLogger("penstock.listener")

ATTEND_SECONDS: Final = 10
"""How long enqueuers know that a consumer waits."""
RENEW_SECONDS: Final = 4
"""How long before its end this is renewed, if a consumer still waits."""
POLL_SECONDS: Final = 0.25
"""How long `wait` waits at most while wake-ups do not arrive."""
_NO_NOTIFICATIONS: Final = (
    "notifications do not arrive: polling instead. A transaction-mode pooler does not forward "
    "them. Turn wake-ups off behind one, or give the worker a direct connection"
)
HEALTH_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 5.0
"""How long our own notification may take before the connection counts as broken."""


class Run(Protocol):
    """Runs a command, as `AsyncClient.run` and `ReconnectingConnection.run` do."""

    def __call__(self, command: Command[T], /) -> Awaitable[T]: ...


class Listener:
    """The listening connection of a process, and the consumers that wait for it.

    `run` runs the few statements of a listener on another connection: a client's, or a
    ReconnectingConnection's. With `enabled=False` nothing listens, and consumers poll.
    """

    def __init__(
        self, dsn: str, run: Run, *, enabled: bool = True, health_seconds: float = HEALTH_SECONDS
    ) -> None:
        self.healthy = False
        self.enabled = enabled
        self._run = run
        self._link = ReconnectingConnection(dsn, prepare_threshold=None, name="penstock listener")
        self._health_seconds = health_seconds
        self._queues: dict[str, SubscribedQueue] = {}
        self._gone: set[str] = set()
        self._by_channel: dict[str, SubscribedQueue] = {}
        self._channels: dict[str, Channel] = {}
        self._changed = asyncio.Event()
        self._answer: asyncio.Future[None] | None = None
        self._ping = f"penstock:ping:{uuid4().hex}"
        self._check_at = 0.0
        self._polls = False
        self._task: asyncio.Task[None] | None = None

    @property
    def patience(self) -> float:
        """How long a consumer should wait without looking."""
        return 60.0 if self.healthy else POLL_SECONDS

    async def start(self) -> None:
        """Start to listen in the background. Retries while the database is unavailable."""
        if self.enabled and self._task is None:
            self._task = asyncio.create_task(self._listen(), name="penstock listener")

    async def stop(self) -> None:
        """Stop listening, and close the connection."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.healthy = False
        for queue in self._queues.values():
            queue.close()
        await self._link.close()

    def subscribe(self, queue: str, callback: Callable[[bool], None] | None = None) -> Subscription:
        """Subscribe to a queue. `callback` is called at each wake-up."""
        subscription = Subscription(self, queue, callback)
        known = self._queues.get(queue)
        if known is None:
            known = self._queues[queue] = SubscribedQueue()
            self._by_channel[workers.wake_channel(queue)] = known
            self._gone.discard(queue)
        known.subscriptions.add(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        known = self._queues.get(subscription.queue)
        if known is None:
            return
        known.subscriptions.discard(subscription)
        if not known.subscriptions:
            known.close()
            del self._queues[subscription.queue]
            del self._by_channel[workers.wake_channel(subscription.queue)]
            self._gone.add(subscription.queue)
            self._changed.set()

    def listen(self, name: str, callback: Callable[[str | None], None]) -> Channel:
        """Pass the notifications of a channel to its one listener in this process."""
        channel = self._channels[name] = Channel(self, name, callback)
        self._changed.set()
        return channel

    def forget_channel(self, channel: Channel) -> None:
        """Stop passing them on. The connection may still listen to the channel."""
        self._channels.pop(channel.name, None)

    def notice(self, queue: str) -> None:
        """A consumer starts to wait for a queue. Make sure that its enqueuers know."""
        if monotonic() > self._queues[queue].attended_until - RENEW_SECONDS:
            self._changed.set()

    async def _listen(self) -> None:
        pause = 0.1
        while True:
            try:
                connection = await self._link.connected()
                await self._serve(connection)
            except (PenstockError, psycopg.Error) as error:
                logger.warning("wake-ups are interrupted: %s", error)
            if self.healthy:
                pause = 0.1
            self._lost()
            await self._link.close()
            # Random, so that the processes of a fleet do not reconnect at the same time.
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, 60.0 if self._polls else 5.0)

    def _lost(self) -> None:
        self.healthy = False
        for queue in self._queues.values():
            queue.listening = False
            queue.attended_until = 0.0
            queue.wake()
        for channel in self._channels.values():
            channel.listening = False

    async def _serve(self, connection: AsyncConnection[Any]) -> None:
        """Listen until the connection breaks or its notifications no longer arrive."""
        notes = notifications(connection, self._notified, self._closed)
        await connection.execute(_listen_to([self._ping]))
        was_polling = self._polls
        await self._check(connection, notes)
        if self._polls:
            if not was_polling:
                logger.warning(_NO_NOTIFICATIONS)
            return
        self.healthy = True
        while True:
            await self._subscribe(connection)
            await self._attend()
            timeout = self._next_duty() - monotonic()
            if timeout > 0:
                await self._idle(connection, notes, timeout)
            if monotonic() >= self._check_at:
                await self._check(connection, notes)
                if self._polls:
                    raise psycopg.OperationalError("notifications no longer arrive")

    def _next_duty(self) -> float:
        times = [q.attended_until - RENEW_SECONDS for q in self._queues.values() if q.waiting]
        return min([self._check_at, *times])

    async def _subscribe(self, connection: AsyncConnection[Any]) -> None:
        """LISTEN to new queues, and UNLISTEN queues without subscribers."""
        new = [name for name, queue in self._queues.items() if not queue.listening]
        gone, self._gone = self._gone, set()
        if gone:
            await connection.execute(_listen_to(map(workers.wake_channel, gone), "unlisten"))
        if new:
            await connection.execute(_listen_to(map(workers.wake_channel, new)))
            for name in new:
                if name in self._queues:
                    self._queues[name].listening = True
        for channel in [each for each in self._channels.values() if not each.listening]:
            await connection.execute(_listen_to([channel.name]))
            channel.listening = True
            channel.callback(None)

    async def _attend(self) -> None:
        """Tell enqueuers that a consumer waits, and repeat that before it expires."""
        now = monotonic()
        heard = {n: q for n, q in self._queues.items() if q.waiting and q.listening}
        if not any(now > queue.attended_until - RENEW_SECONDS for queue in heard.values()):
            return
        # Renew those that will be due soon together with those that are due, in one statement.
        names = [n for n, q in heard.items() if now > q.attended_until - 2 * RENEW_SECONDS]
        due = await self._run(workers.attend(names, ATTEND_SECONDS))
        for name in names:
            if (queue := self._queues.get(name)) is None:
                continue
            lapsed = now > queue.attended_until
            # A queue that does not exist is tried again, as often as any other.
            queue.attended_until = now + ATTEND_SECONDS
            self._look_when_due(queue, due.get(name))
            if lapsed:
                # Messages that were enqueued until now caused no wake-up.
                queue.wake()

    def _look_when_due(self, queue: SubscribedQueue, seconds: float | None) -> None:
        if queue.due is not None:
            queue.due.cancel()
        queue.due = None
        if seconds is not None and seconds < ATTEND_SECONDS:
            loop = asyncio.get_running_loop()
            queue.due = loop.call_later(seconds + 0.001, self._came_due, queue)

    def _came_due(self, queue: SubscribedQueue) -> None:
        queue.due = None
        self._ask_again(queue)
        queue.wake()

    async def _idle(
        self, connection: AsyncConnection[Any], notes: Notifications, timeout: float
    ) -> None:
        """Wait for notifications."""
        try:
            async with notes.watch(), asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            pass
        finally:
            self._changed.clear()
        _check_not_closed(connection)

    def _closed(self) -> None:
        self._changed.set()
        self._answered()

    def _notified(self, channel: str, payload: str) -> None:
        if channel == self._ping:
            self._answered()
            return
        if channel in self._channels:
            self._channels[channel].callback(payload)
            return
        queue = self._by_channel.get(channel)
        if queue is None:
            return
        if payload == "scheduled":
            self._ask_again(queue)
        else:
            queue.wake(notified=True)
        queue.wake_again()

    def _ask_again(self, queue: SubscribedQueue) -> None:
        """Another queue may now be due before the known ones."""
        queue.attended_until = min(queue.attended_until, monotonic() + RENEW_SECONDS)
        self._changed.set()

    async def _check(self, connection: AsyncConnection[Any], notes: Notifications) -> None:
        """Whether a notification that is sent on another connection arrives here."""
        self._answer = asyncio.get_running_loop().create_future()
        sent = heard = False
        try:
            async with notes.watch(), asyncio.timeout(ANSWER_SECONDS):
                await self._run(workers.notify(self._ping, ""))
                sent = True
                await self._answer
                heard = True
        except TimeoutError:
            if not sent:
                raise psycopg.OperationalError("the database does not answer") from None
        finally:
            self._answer = None
        _check_not_closed(connection)
        self._polls = not heard
        self._check_at = monotonic() + self._health_seconds

    def _answered(self) -> None:
        """Our own notification arrived, or no more will arrive."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)


def _check_not_closed(connection: AsyncConnection[Any]) -> None:
    if connection.closed:
        raise psycopg.OperationalError("the listening connection was closed")


def _listen_to(channels: Iterable[str], verb: str = "listen") -> sql.Composed:
    statements = [sql.SQL(verb + " {}").format(sql.Identifier(name)) for name in channels]
    return sql.SQL("; ").join(statements)
