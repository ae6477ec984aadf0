"""The interests of waiters in queues and channels, which a Listener serves over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from penstock.db.listener import Listener

AFTER_SECONDS: Final = (
    *(0.002, 0.002, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008),
    *(0.012, 0.02, 0.04, 0.08),
)
"""The intervals at which a listener looks again after a wake-up. Within 32 ms of it, a message
waits for 8 ms at most. Enqueuers notify at most every 10 ms, and a message whose enqueuer did not
notify may become visible later than the one that did, by as much as its commit takes."""


class Subscription:
    """The interest of one waiter in one queue. It calls `wait`, or is called back."""

    def __init__(self, listener: Listener, queue: str, callback: Callable[[bool], None] | None):
        self.queue = queue
        self._listener = listener
        self._event = asyncio.Event()
        self._callback = callback
        self.waiting = 0

    async def wait(self, timeout: float) -> bool:
        """Wait until there may be a message (True) or until the timeout (False)."""
        self.rest()
        try:
            async with asyncio.timeout(min(timeout, self._listener.patience)):
                await self._event.wait()
            return True
        except TimeoutError:
            return False
        finally:
            self._event.clear()
            self.waiting -= 1

    def rest(self) -> None:
        """Record that a consumer waits from now on. Only then are enqueuers asked to notify."""
        self.waiting += 1
        self._listener.notice(self.queue)

    def wake(self, notified: bool) -> None:
        """There may be a message. `notified`: an enqueuer has just sent a notification."""
        if self._callback is not None:
            self._callback(notified)
        self._event.set()

    def close(self) -> None:
        self._listener.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Channel:
    """A channel with notifications of any other kind, which passes each of them on.

    `callback` gets the payload. It gets None when the connection begins to listen, because earlier
    notifications have been missed.
    """

    def __init__(
        self, listener: Listener, name: str, callback: Callable[[str | None], None]
    ) -> None:
        self.name = name
        self.callback = callback
        self.listening = False
        self._listener = listener

    def close(self) -> None:
        self._listener.forget_channel(self)


class SubscribedQueue:
    """The state of a queue that has subscribers."""

    def __init__(self) -> None:
        self.subscriptions: set[Subscription] = set()
        self.listening = False
        self.attended_until = 0.0
        self.due: asyncio.TimerHandle | None = None
        self.again: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        return any(each.waiting for each in self.subscriptions)

    def wake(self, notified: bool = False) -> None:
        for each in list(self.subscriptions):
            each.wake(notified)

    def wake_again(self, looks: int = 0) -> None:
        """Wakes repeatedly, at growing intervals. A new notification starts this again."""
        if looks:
            self.wake()
        if self.again is not None:
            self.again.cancel()
        self.again = None
        if looks < len(AFTER_SECONDS):
            loop = asyncio.get_running_loop()
            self.again = loop.call_later(AFTER_SECONDS[looks], self.wake_again, looks + 1)

    def close(self) -> None:
        """Stop all timers."""
        for timer in (self.due, self.again):
            if timer is not None:
                timer.cancel()
