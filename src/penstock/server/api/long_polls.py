"""Long polls: consumers that wait for messages, and one task that claims for all of them.

Consumers that wait for the same topic with the same options share a poll. When its topic is
notified, one claim asks for as many messages as its consumers want, and they get them in order of
arrival. One connection receives the notifications of all topics. From time to time one statement
claims for all polls, to find messages without a notification, such as those of expired leases.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from contextlib import suppress
from typing import Any, Final, NamedTuple

import psycopg

from penstock.commands.write.workers import Found, PollWant, dequeue
from penstock.db.listener import Listener
from penstock.db.subscriptions import Subscription
from penstock.errors import DatabaseUnavailableError, PenstockError, QueueNotFoundError
from penstock.server.api import documents as d
from penstock.server.api.call_batching import give_back
from penstock.server.api.rendering import claimed
from penstock.server.database import Database

log: Final = logging.getLogger("penstock.server")
LOOK_SECONDS: Final = 2.0
MAX_COUNT: Final = 1000
# A claim for a poll takes milliseconds. A consumer whose time is over waits for it this long.
LAST_LOOK_SECONDS: Final = 2.0
# Consumers that arrive together, as after a restart, would all return together every 20 s. If many
# wait, the time of each is shortened by a random share up to this one.
SPREAD: Final = 0.1
MANY: Final = 20
# A consumer that was answered usually comes back within milliseconds. Its topic stays subscribed,
# and the looks that follow a wake-up continue. If each answer ends the subscription, one consumer
# at 200 messages a second has a p99 of 12 ms.
LINGER_SECONDS: Final = 10.0
MAX_LINGERING: Final = 1000


class PollKey(NamedTuple):
    topic: str
    lease_seconds: int | None
    worker: str


class Waiter:
    """One waiting consumer."""

    def __init__(self, count: int, strict: bool) -> None:
        self.count = count
        self.strict = strict
        self.found: asyncio.Future[list[d.Message]] = asyncio.get_running_loop().create_future()


class SharedPoll:
    """Consumers that one claim can serve."""

    def __init__(self, key: PollKey) -> None:
        self.key = key
        self.waiters: deque[Waiter] = deque()
        self.looking = False

    def want(self) -> PollWant:
        count = sum(waiter.count for waiter in self.waiters)
        return PollWant(
            self.key.topic, min(count, MAX_COUNT), self.key.lease_seconds, self.key.worker
        )


class LongPolls:
    """Waits on behalf of all long polls of a process."""

    def __init__(self, database: Database, listener: Listener, answer_bytes: int) -> None:
        self._database = database
        self._answer_bytes = answer_bytes
        self._listener = listener
        self._polls: dict[PollKey, SharedPoll] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._lingering: dict[str, asyncio.TimerHandle] = {}
        self._woken: set[str] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._draining = False

    @property
    def waiting(self) -> int:
        """The number of waiting consumers."""
        return sum(len(poll.waiters) for poll in self._polls.values())

    def start(self) -> None:
        self._task = asyncio.create_task(self._work(), name="penstock long polls")

    def drain(self) -> None:
        """Answer all waiting consumers, and let no consumer wait from now on."""
        self._draining = True
        for poll in list(self._polls.values()):
            for waiter in poll.waiters:
                if not poll.looking and not waiter.found.done():
                    waiter.found.set_result([])

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        for topic in list(self._subscriptions):
            self._unsubscribe(topic)

    async def wait(
        self, key: PollKey, count: int, seconds: float, strict: bool, gone: asyncio.Future[None]
    ) -> list[d.Message]:
        """The messages, as soon as there is one. None if the time is over or `gone` is done."""
        poll = self._polls.setdefault(key, SharedPoll(key))
        waiter = Waiter(count, strict)
        # A consumer that joins a waiting poll need not claim, because the poll has just claimed.
        alone = not poll.waiters
        poll.waiters.append(waiter)
        self._attend(key.topic)
        if alone or strict:
            self._woke(key.topic)
        try:
            if len(poll.waiters) > MANY:
                seconds *= 1 - random.random() * SPREAD
            return await self._await(poll, waiter, 0 if self._draining else seconds, gone)
        finally:
            if waiter in poll.waiters:
                poll.waiters.remove(waiter)
            self._leave(poll)

    async def _await(
        self, poll: SharedPoll, waiter: Waiter, seconds: float, gone: asyncio.Future[None]
    ) -> list[d.Message]:
        ends: set[asyncio.Future[Any]] = {waiter.found, gone}
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not waiter.found.done() and poll.looking:
            # The claim in progress was made for this consumer, too.
            await asyncio.wait({waiter.found}, timeout=LAST_LOOK_SECONDS)
        if not waiter.found.done():
            waiter.found.set_result([])
        found = waiter.found.result()
        if gone.done():
            await give_back(self._database, found)
            return []
        return found

    def _attend(self, topic: str) -> None:
        """Subscribe to the notifications of a topic when its first consumer waits."""
        if timer := self._lingering.pop(topic, None):
            timer.cancel()
        known = self._subscriptions.get(topic)
        if known is None:
            known = self._listener.subscribe(topic, lambda notified: self._woke(topic))
            self._subscriptions[topic] = known
        if not known.waiting:
            known.rest()

    def _leave(self, poll: SharedPoll) -> None:
        if poll.waiters:
            return
        self._polls.pop(poll.key, None)
        topic = poll.key.topic
        if any(key.topic == topic for key in self._polls):
            return
        if len(self._lingering) >= MAX_LINGERING:
            self._unsubscribe(topic)
        elif topic not in self._lingering:
            loop = asyncio.get_running_loop()
            self._lingering[topic] = loop.call_later(LINGER_SECONDS, self._unsubscribe, topic)

    def _unsubscribe(self, topic: str) -> None:
        if timer := self._lingering.pop(topic, None):
            timer.cancel()
        if subscription := self._subscriptions.pop(topic, None):
            subscription.close()

    def _woke(self, topic: str) -> None:
        self._woken.add(topic)
        self._wake.set()

    async def _work(self) -> None:
        while True:
            try:
                await self._turn()
            except (PenstockError, psycopg.Error) as error:
                self._fail(error)
                await asyncio.sleep(0.1)

    async def _turn(self) -> None:
        """Claim after each notification, and for all polls at intervals."""
        everywhere = False
        try:
            async with asyncio.timeout(min(LOOK_SECONDS, self._listener.patience)):
                await self._wake.wait()
        except TimeoutError:
            everywhere = True
        self._wake.clear()
        woken, self._woken = self._woken, set()
        polls = [
            poll
            for poll in self._polls.values()
            if poll.waiters and (everywhere or poll.key.topic in woken)
        ]
        if polls:
            await self._look(polls)

    async def _look(self, polls: list[SharedPoll]) -> None:
        wants = [poll.want() for poll in polls]
        for poll in polls:
            poll.looking = True
        try:
            answers = await self._database.run(dequeue(wants, self._answer_bytes))
        finally:
            for poll in polls:
                poll.looking = False
        for poll, answer in zip(polls, answers, strict=True):
            await self._hand_out(poll, answer)
            if answer.rows and poll.waiters:  # there may be more
                self._woke(poll.key.topic)

    async def _hand_out(self, poll: SharedPoll, answer: Found) -> None:
        messages = deque(claimed(row, poll.key.worker) for row in answer.rows)
        for waiter in list(poll.waiters):
            if not answer.known and waiter.strict:
                self._resolve(poll, waiter, _unknown(poll.key.topic))
            elif messages and not waiter.found.done():
                share = [messages.popleft() for _ in range(min(waiter.count, len(messages)))]
                self._resolve(poll, waiter, share)
            elif self._draining:
                self._resolve(poll, waiter, [])
        if messages:  # their consumers have left
            await give_back(self._database, messages)

    def _resolve(
        self, poll: SharedPoll, waiter: Waiter, end: list[d.Message] | PenstockError
    ) -> None:
        poll.waiters.remove(waiter)
        if waiter.found.done():
            return
        if isinstance(end, PenstockError):
            waiter.found.set_exception(end)
        else:
            waiter.found.set_result(end)

    def _fail(self, error: PenstockError | psycopg.Error) -> None:
        if not isinstance(error, DatabaseUnavailableError):
            log.warning("long polls cannot be served: %s", error)
        for poll in list(self._polls.values()):
            for waiter in list(poll.waiters):
                if not waiter.found.done():
                    waiter.found.set_exception(error)


def _unknown(topic: str) -> QueueNotFoundError:
    return QueueNotFoundError(
        f"queue {topic!r} does not exist", hint="Create it first.", queue=topic
    )
