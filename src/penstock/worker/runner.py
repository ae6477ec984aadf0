"""Runs the handler of one queue for a limited number of messages at once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import monotonic, perf_counter
from typing import Any, Final

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client
from penstock.commands import lease_row as c
from penstock.commands.write.workers import Want
from penstock.tasks.waiting import ResultWaiter
from penstock.worker.counters import HandlerCounters
from penstock.worker.delivery import Delivery
from penstock.worker.handlers import Call, Handler, QueueHandlers
from penstock.worker.outcomes import Complete, Outcome, Reject, Retry, Snooze, keep_traceback
from penstock.worker.own_context import run_in_own_context
from penstock.worker.process_metrics import measured
from penstock.worker.processes import Processes
from penstock.worker.progress import Reports
from penstock.worker.settler import Settler
from penstock.worker.threads import ThreadCaller, Threads
from penstock.worker.tracing import traced

logger = logging.getLogger("penstock.worker")

# Messages claimed ahead should start within this time, at the recent pace.
_AHEAD_SECONDS: Final = 0.02
# Half of them are worked on while a claim fetches the other half. More would not make claims
# cheaper, and all of them wait for the end of their leases if the process is killed.
_AHEAD_MOST: Final = 1000


class Runner:
    """The messages of one queue that this process holds, from claim to settle.

    `waiting` are claimed and not started. `running` are in their handlers.
    """

    def __init__(
        self,
        handlers: QueueHandlers,
        concurrency: int,
        settler: Settler,
        client: AsyncClient,
        wrap: Callable[[Call], Call],
        max_bytes: int | None = None,
    ) -> None:
        self._find = handlers.find
        self.queue = handlers.queue
        self._lease_seconds = handlers.lease_seconds
        self.concurrency = concurrency
        self.client = client
        self.sync_client: Client | None = None
        self.waiter: ResultWaiter | None = None
        self.reports: Reports | None = None
        # None in tests: a child process would not see their transaction.
        self.processes: Processes | None = Processes()
        self.waiting: deque[Delivery] = deque()
        self.running: set[Delivery] = set()
        self.counters = HandlerCounters()
        self.on_room: Callable[[], None] = _nothing
        self.on_settled: Callable[[], None] = _nothing
        self.stopping = False
        self.quiet = False
        self.resting = False
        self._reserved = 0
        self._max_bytes = max_bytes
        self._bytes = 0  # of the messages that are held, and of those that claims may return
        self._pumps = 0
        self._settler = settler
        self.threads: ThreadCaller | None = None
        if not all(each.is_async for each in handlers):
            self.threads = Threads(f"penstock-{self.queue}", self._freed, handlers.on_thread_end)
        only = handlers.plain if not handlers.tasks else None
        is_direct = only is not None and only.is_async
        call = wrap(only.function if only is not None and is_direct else self._call_handler)
        self._call = measured(self.queue, traced(self.queue, call))
        self._pace = 1.0  # seconds of a recent run; the first runs are assumed to be long

    # Room

    @property
    def room(self) -> int:
        """How many more messages the runner can use."""
        if self._claims_nothing or self._settler.is_behind:
            return 0
        if self._max_bytes is not None and self._bytes >= self._max_bytes:
            return 0
        busy = len(self.running)
        if self.threads is not None:
            busy = max(busy, self.threads.busy)
        return self.concurrency + self._ahead - len(self.waiting) - busy - self._reserved

    @property
    def _ahead(self) -> int:
        """How many to claim ahead while handlers are quick, so that they do not wait for a claim.

        Few or none if they are slow, because another worker could have started them.
        """
        return min(_AHEAD_MOST, int(self.concurrency * _AHEAD_SECONDS / self._pace))

    def reserve(self) -> Want | None:
        """Reserve room for a claim. A call of `take` or `release` must follow."""
        # Not all of it: the next claim should be in progress while these messages are worked on.
        room = min(self.room, max(self.concurrency, self._ahead // 2), 1000)
        if room <= 0:
            return None
        self._reserved += room
        if self._max_bytes is None:
            return Want(self.queue, room, self._lease_seconds)
        left = self._max_bytes - self._bytes
        self._bytes += left
        return Want(self.queue, room, self._lease_seconds, left)

    def reserve_for_look(self) -> Want | None:
        """Reserve room for a look at all queues, which cannot limit the size of what it finds."""
        want = self.reserve()
        if want is None or want.max_bytes is None:
            return want
        self._reserved -= want.count - 1
        return replace(want, count=1)

    def release(self, want: Want) -> None:
        """Give reserved room back to the claims that wait for it."""
        self._reserved -= want.count
        self._bytes -= want.max_bytes or 0
        self.on_room()

    def take(self, want: Want, rows: Sequence[Sequence[Any]]) -> None:
        """Start the messages of a claim."""
        self.release(want)
        if not rows:
            return
        now = monotonic()
        claimed = [Delivery(self, row, now) for row in rows]
        self.waiting.extend(claimed)
        if self._max_bytes is not None:
            for delivery in claimed:
                delivery._counted_bytes = _size(delivery)
                self._bytes += delivery._counted_bytes
        if self._claims_nothing:
            self.give_back_waiting()
        else:
            self._begin()

    # Running

    def _begin(self) -> None:
        """Start one more pump if there is work. A pump that waits starts others."""
        if self.waiting and not self.stopping and self._may_begin(self._pumps):
            self._pumps += 1
            asyncio.get_running_loop().create_task(self._pump())

    def _may_begin(self, busy: int) -> bool:
        """Whether a slot is free. A thread keeps its slot even after a timeout, until it ends."""
        threads = 0 if self.threads is None else self.threads.busy
        return max(busy, threads) < self.concurrency

    async def _pump(self) -> None:
        """Run one message after the other while there are any."""
        task = asyncio.current_task()
        assert task is not None
        try:
            while self.waiting and not self.stopping and self._may_begin(self._pumps - 1):
                delivery = self.waiting.popleft()
                delivery._task = task
                self.running.add(delivery)
                await self._run(delivery, task)
        finally:
            self._pumps -= 1

    def _first_wait(self) -> None:
        # Two, so that any number of waiting handlers start within a few turns of the loop.
        self._begin()
        self._begin()

    async def _run(self, delivery: Delivery, task: asyncio.Task[None]) -> None:
        started = delivery._begun = perf_counter()
        handler = delivery._handler = self._find(delivery)
        if handler.timeout is not None:
            self.start_timeout(delivery)
        outcome: Outcome | None
        cancelled = False
        try:
            result = await run_in_own_context(delivery, self._call(delivery), self._first_wait)
            outcome = _returned(delivery, result)
            if outcome is not None and type(outcome) is not Complete:
                self._log_end(delivery, outcome, outcome)
        except Outcome as raised:
            outcome = raised
            self._log_end(delivery, outcome, raised)
        except asyncio.CancelledError as error:
            outcome = self._cancelled(delivery, error)
            cancelled = delivery._ended is None and task.cancelling() > 0
        except (Exception, SystemExit) as error:  # a handler that calls exit() has failed too
            outcome = handler.retry.outcome(error, delivery.attempt)
            self._log_failure(delivery, outcome, error)
        self.stop_timeout(delivery)
        self._finished(delivery, outcome, perf_counter() - started)
        if delivery._ended is not None:
            # The handler was cancelled, not the pump.
            while task.cancelling():
                task.uncancel()
        elif cancelled:
            raise asyncio.CancelledError

    def _finished(self, delivery: Delivery, outcome: Outcome | None, seconds: float) -> None:
        self.running.discard(delivery)
        self._pace += (seconds - self._pace) * 0.1
        self._count(delivery, outcome, seconds)
        if delivery._ended != LOST:
            self._settler.settle(delivery, outcome)
        else:
            self.forget([delivery])
        self.on_room()

    def _count(self, delivery: Delivery, outcome: Outcome | None, seconds: float) -> None:
        counters = self.counters
        counters.run.add(seconds)
        if delivery.attempt == 1:
            counters.wait.add(delivery._waited_seconds)
        if delivery._ended == LOST:
            counters.lost += 1
        elif outcome is None or isinstance(outcome, Complete):
            counters.done += 1
        elif isinstance(outcome, Retry):
            counters.retried += 1
        elif isinstance(outcome, Snooze):
            counters.snoozed += 1
        else:
            counters.rejected += 1

    def _freed(self) -> None:
        """A thread has become free."""
        self._begin()
        self.on_room()

    def _cancelled(self, delivery: Delivery, cancelled: asyncio.CancelledError) -> Outcome:
        if delivery._ended == STOPPED:
            return self._cut_off(delivery)
        error = TimeoutError(delivery._ended or "the handler was cancelled")
        error = error.with_traceback(cancelled.__traceback__)  # at its previous place
        outcome = _handler(delivery).retry.outcome(error, delivery.attempt)
        if delivery._ended != LOST:
            self._log_failure(delivery, outcome, error)
        return outcome

    def _cut_off(self, delivery: Delivery) -> Outcome:
        """The grace period is over, and the handler was still running."""
        outcome = Retry(0, STOPPED)
        text = "handler cancelled at the end of the grace period: message %d "
        if _is_dead(delivery, outcome):
            self._log(logging.ERROR, text + "becomes a dead letter", delivery, None, delivery.id)
        else:
            self._log(logging.WARNING, text + "is tried again", delivery, None, delivery.id)
        return outcome

    def start_timeout(self, delivery: Delivery) -> None:
        """Begin to count the timeout of the handler, if it has one."""
        timeout = _handler(delivery).timeout
        if timeout is not None:
            loop = asyncio.get_running_loop()
            why = f"timed out after {timeout:g} s"
            delivery._alarm = loop.call_later(timeout, end, delivery, why)

    def stop_timeout(self, delivery: Delivery) -> None:
        """Stop counting, because the handler waits for its turn or has ended."""
        if delivery._alarm is not None:
            delivery._alarm.cancel()
            delivery._alarm = None

    async def _call_handler(self, delivery: Delivery) -> Any:
        handler = _handler(delivery)
        if handler.is_async:
            return await handler.function(delivery)
        assert self.threads is not None
        return await self.threads.call(handler.function, delivery)

    def _log_failure(self, delivery: Delivery, outcome: Outcome, error: BaseException) -> None:
        if _is_dead(delivery, outcome):
            self._log_end(delivery, outcome, error)
        else:
            text = "handler failed: %s: %s"
            self._log(logging.WARNING, text, delivery, error, type(error).__name__, error)

    def _log_end(self, delivery: Delivery, outcome: Outcome, error: BaseException) -> None:
        """Log the attempt that makes a dead letter as an error, with its traceback."""
        if not _is_dead(delivery, outcome):
            return
        keep_traceback(outcome, error)
        text = "handler failed, message %d becomes a dead letter: %s: %s"
        self._log(logging.ERROR, text, delivery, error, delivery.id, type(error).__name__, error)

    def _log(
        self, level: int, text: str, delivery: Delivery, error: BaseException | None, *values: Any
    ) -> None:
        extra = {"queue": self.queue, "id": delivery.id, "attempt": delivery.attempt}
        logger.log(level, text, *values, exc_info=error, extra=extra)

    # Ending

    def held(self) -> list[Delivery]:
        """All messages whose leases this runner has to extend."""
        return [*self.waiting, *self.running]

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        """Their outcomes are stored, or their leases are lost."""
        if self._max_bytes is not None:
            for delivery in deliveries:
                self._bytes -= delivery._counted_bytes
                delivery._counted_bytes = 0

    def lose(self, delivery: Delivery) -> None:
        """The lease is lost, so the result of its handler is discarded."""
        if delivery in self.running:
            end(delivery, LOST)
        elif delivery in self.waiting:
            self.waiting.remove(delivery)
            self.forget([delivery])

    def stop(self) -> None:
        """Start no more messages."""
        self.stopping = True
        self.give_back_waiting()
        self.on_room()

    @property
    def _claims_nothing(self) -> bool:
        return self.stopping or self.quiet or self.resting

    def set_quiet(self, quiet: bool) -> None:
        """Stop claiming, or claim again, as an operator says. Running handlers continue."""
        if quiet != self.quiet:
            self.quiet = quiet
            self._claiming_changed()

    def set_resting(self, resting: bool) -> None:
        """The same as the handler says, such as during an outage of an endpoint."""
        if resting != self.resting:
            self.resting = resting
            self._claiming_changed()

    def _claiming_changed(self) -> None:
        if self._claims_nothing:
            self.give_back_waiting()
        else:
            self.on_settled()

    def give_back_waiting(self) -> None:
        """Give back messages that were not started. The attempt does not count."""
        while self.waiting:
            self._settler.settle(self.waiting.popleft(), GIVE_BACK)

    def interrupt(self) -> None:
        """The grace period is over: running messages are given back, as failed attempts."""
        for delivery in list(self.running):
            if _handler(delivery).is_async:
                end(delivery, STOPPED)
            else:
                # A thread cannot be stopped. It ends with the process.
                self.running.discard(delivery)
                delivery._ended = STOPPED
                self._settler.settle(delivery, self._cut_off(delivery))

    def close(self) -> None:
        if self.processes is not None:
            self.processes.close()
        if self.threads is not None:
            self.threads.close()


LOST: Final = "the lease was lost"
STOPPED: Final = "the worker was stopped while the handler ran"
GIVE_BACK: Final = Snooze(0)


def end(delivery: Delivery, why: str) -> None:
    """Cancel a running handler. Its outcome no longer counts."""
    if delivery._ended is None:
        delivery._ended = why
    if delivery._task is not None:
        delivery._task.cancel()


def _size(delivery: Delivery) -> int:
    """The length of the payload and the headers, as they were received."""
    row = delivery._row
    parts = (row[c.PAYLOAD], row[c.PAYLOAD_BYTES], row[c.HEADERS])
    return sum(len(part) for part in parts if part is not None)


def _handler(delivery: Delivery) -> Handler:
    assert delivery._handler is not None
    return delivery._handler


def _returned(delivery: Delivery, result: Any) -> Outcome | None:
    """The outcome of a handler that returned; None for a bare ack."""
    outcome = result if isinstance(result, Outcome) else None
    if delivery._enqueues and (outcome is None or isinstance(outcome, Complete)):
        outcome = outcome or Complete()
        outcome.enqueues = [*outcome.enqueues, *delivery._enqueues]
    return outcome


def _is_dead(delivery: Delivery, outcome: Outcome) -> bool:
    """Whether the outcome makes a dead letter of the message."""
    if delivery._ended == LOST:
        return False  # it will not be settled
    is_last = delivery.attempt >= delivery.max_attempts
    return isinstance(outcome, Reject) or (isinstance(outcome, Retry) and is_last)


def _nothing() -> None:
    pass
