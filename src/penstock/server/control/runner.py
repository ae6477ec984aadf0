"""Carries out the tasks of the control plane. Any server may take a task.

A task is a message in `penstock.tasks`. It is acked in the transaction that stores its result, so
another server repeats the task of a server that died. The messages that a task enqueues on its
service are recorded there in the same transaction, so a repeated task enqueues them once.

A task that finds its service unreachable has the service checked. If the check fails too, all tasks
of the service wait: see `monitor`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import monotonic
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg

from penstock.commands import read
from penstock.commands.write import ack, claim, create_queue, drop_queue, extend, nack, snooze
from penstock.commands.write.idempotency import forget_expired
from penstock.commands.write.services import (
    apply_enqueue,
    begin_task,
    finish_task,
    note_task_failure,
)
from penstock.db.listener import Listener
from penstock.db.subscriptions import Subscription
from penstock.errors import (
    DatabaseUnavailableError,
    LeaseLostError,
    PenstockError,
    QueueNotFoundError,
)
from penstock.model.message import Lease
from penstock.model.service import TaskOrder
from penstock.server.control.monitor import ServiceMonitor, task_address
from penstock.server.control.service_check import error_text
from penstock.server.database import Database

T = TypeVar("T")
log: Final = logging.getLogger("penstock.server")
QUEUE: Final = "penstock.tasks"
TASK_SETTINGS: Final = {"lease_seconds": 6, "max_attempts": 100, "keep_history": 1}
# Tasks that a server has claimed, that it carries out at once, and those of one service: tasks of
# a hung service leave room for the others. A task may hold 25 MB of messages.
CLAIMED: Final = 32
AT_ONCE: Final = 8
OF_ONE_SERVICE: Final = 3
# A service that has completed no task for this long gets one place, because it may hang.
TRUST_SECONDS: Final = 5.0
# How long a claimed task waits for its turn. Then it goes back, so that the claimed tasks are not
# all of one service. It may be claimed again after the same time.
TURN_SECONDS: Final = 1.0
LEASE_SECONDS: Final = 6
LOOK_SECONDS: Final = 5.0
MAX_FAILURES: Final = 5


class ServiceRoom:
    """Limits the tasks of one service that run at once."""

    def __init__(self) -> None:
        self._running = 0
        self._completed_at = float("-inf")
        self._changed = asyncio.Condition()

    @property
    def _is_free(self) -> bool:
        is_trusted = monotonic() - self._completed_at < TRUST_SECONDS
        return self._running < (OF_ONE_SERVICE if is_trusted else 1)

    async def enter(self, seconds: float) -> bool:
        """Wait for a place. False if there is none in time."""
        async with self._changed:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait_for(lambda: self._is_free)
            except TimeoutError:
                return False
            self._running += 1
            return True

    async def leave(self, is_completed: bool) -> None:
        async with self._changed:
            self._running -= 1
            if is_completed:
                self._completed_at = monotonic()
            self._changed.notify_all()


class Runner:
    """Claims tasks and carries them out, a few at once."""

    queue = QUEUE

    def __init__(
        self, database: Database, listener: Listener, name: str, monitor: ServiceMonitor
    ) -> None:
        self.max_failures = MAX_FAILURES
        self._monitor = monitor
        self._targets = monitor.targets
        self._room = asyncio.Semaphore(AT_ONCE)
        self._service_rooms: dict[str, ServiceRoom] = {}
        self._database = database
        self._listener = listener
        self._name = name
        self._running: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None
        self._wake_ups: Subscription | None = None

    def start(self) -> None:
        self._loop = asyncio.create_task(self._work(), name=self.queue)

    async def stop(self) -> None:
        """Claim no more tasks, and finish the running ones."""
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
        if self._running:
            await asyncio.wait(self._running, timeout=LEASE_SECONDS)

    def nudge(self) -> None:
        """Claim a new task at once. The first task exists before its queue can be listened to."""
        if self._wake_ups is not None:
            self._wake_ups.wake(False)

    async def run_once(self) -> int:
        """Carry out the tasks that are ready. Returns their number."""
        leases = await self._claim(CLAIMED)
        await asyncio.gather(*(self._carry_out(lease) for lease in leases))
        return len(leases)

    async def _work(self) -> None:
        with self._listener.subscribe(self.queue) as wake_ups:
            self._wake_ups = wake_ups
            while True:
                room = CLAIMED - len(self._running)
                found = await self._look(room) if room else []
                for lease in found:
                    task = asyncio.create_task(self._carry_out(lease))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
                if len(found) < room or not room:
                    await self._pause(wake_ups)

    async def _pause(self, wake_ups: Subscription) -> None:
        """Wait for a notification, the end of a running task, or the next poll."""
        waiting = asyncio.ensure_future(wake_ups.wait(LOOK_SECONDS))
        await asyncio.wait({waiting, *self._running}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting

    async def _look(self, room: int) -> list[Lease]:
        try:
            return await self._claim(room)
        except (PenstockError, psycopg.Error) as error:
            if not isinstance(error, DatabaseUnavailableError):
                log.warning("cannot look for tasks: %s", error)
            return []

    async def _claim(self, count: int) -> list[Lease]:
        try:
            command = claim(self.queue, count, lease_seconds=LEASE_SECONDS, worker=self._name)
            return await self._database.run(command)
        except QueueNotFoundError:  # there was no task yet
            return []

    async def _carry_out(self, lease: Lease) -> None:
        keeping = asyncio.create_task(self._keep(lease))
        try:
            await self._attempt(lease)
        except LeaseLostError:
            log.warning("task of message %s was taken over by another server", lease.id)
        except Exception as error:
            # It stays leased, and is delivered again when the lease expires.
            if not isinstance(error, DatabaseUnavailableError):
                log.exception("task of message %s failed", lease.id)
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping

    async def _keep(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            with suppress(PenstockError, psycopg.Error):
                await self._database.run(extend(lease, LEASE_SECONDS))

    async def _attempt(self, lease: Lease) -> None:
        if isinstance(lease.payload, dict) and lease.payload.get("chore") == "delete-reaper":
            await self._database.run(forget_expired())
            await self._database.run(ack(lease))
            return
        service = _field(lease.payload, "service", str) or ""
        room = self._service_rooms.setdefault(service, ServiceRoom())
        if not await room.enter(TURN_SECONDS):
            await self._database.run(snooze(lease, TURN_SECONDS))
            return
        is_completed = False
        try:
            async with self._room:
                is_completed = await self._attempt_task(lease, _task_id(lease.payload))
        finally:
            await room.leave(is_completed)

    async def _attempt_task(self, lease: Lease, task: str | None) -> bool:
        """Whether the service has completed the task."""
        delivery = _field(lease.payload, "delivery", int)
        order = await self._database.run(begin_task(task, delivery)) if task else None
        if task is None or order is None:
            await self._database.run(ack(lease))
            return False
        try:
            result = await self._do(task, order)
        except (PenstockError, psycopg.Error) as error:
            await self._failed(lease, task, order, error)
            return False
        await self._finish(lease, task, result)
        return True

    async def _do(self, task: str, order: TaskOrder) -> dict[str, Any] | None:
        target = self._targets.conninfo(task_address(order), order.database_name)
        if order.kind == "create":
            await self._create(target, order)
            return None
        if order.kind == "delete":
            with suppress(QueueNotFoundError):
                await self._targets.run(target, drop_queue(order.name, force=True))
            return None
        if order.kind == "enqueue":
            request = order.request or {}
            command = apply_enqueue(task, order.name, request["payloads"], request["delays"])
            return {"message_ids": await self._targets.run(target, command)}
        return await self._stats(target, order)

    async def _create(self, target: str, order: TaskOrder) -> None:
        await self._targets.prepare(target)
        settings = {
            "lease_seconds": order.visibility_timeout_seconds,
            "max_attempts": order.max_attempts,
            "dlq_enabled": order.dlq_enabled,
        }
        await self._targets.run(target, create_queue(order.name, changes=settings, exist_ok=True))

    async def _stats(self, target: str, order: TaskOrder) -> dict[str, Any]:
        stats = await self._targets.run(target, read.stats(order.name))
        return {
            "queue_name": order.name,
            "ready_messages": stats.ready,
            "inflight_messages": stats.leased,
            "dead_messages": stats.dead,
            "oldest_age_seconds": round(stats.oldest_ready_seconds or 0, 1),
        }

    async def _failed(
        self, lease: Lease, task: str, order: TaskOrder, error: PenstockError | psycopg.Error
    ) -> None:
        """Whether a retry may help: the database is unavailable, or the error is unknown."""
        is_away = isinstance(error, DatabaseUnavailableError)
        if is_away and order.dsn is not None:
            checked = await self._monitor.check(order.service_id)
            if checked is None or checked.error is not None:
                # The task waits with the others of its service, and gets another message. This one
                # is ignored when it returns, unless the address was changed during the check: then
                # the task does not wait.
                await self._database.run(snooze(lease, 0))
                return
        final = isinstance(error, PenstockError) and not is_away
        if final or order.failures + 1 >= self.max_failures:
            await self._finish(lease, task, None, error_text(error))
            return
        async with self._database.transaction() as connection:
            await self._database.run(note_task_failure(task, error_text(error)), connection)
            await self._database.run(nack(lease, error_text(error), 2**order.failures), connection)

    async def _finish(
        self, lease: Lease, task: str, result: dict[str, Any] | None, error: str | None = None
    ) -> None:
        async with self._database.transaction() as connection:
            await self._database.run(finish_task(task, result, error), connection)
            await self._database.run(ack(lease), connection)


def _field(payload: Any, name: str, kind: type[T]) -> T | None:
    """A field of a message, or None if it has none of this type."""
    found = payload.get(name) if isinstance(payload, dict) else None
    return found if isinstance(found, kind) else None


def _task_id(payload: Any) -> str | None:
    """The id in a message, or None if it is not a task."""
    try:
        return str(UUID(payload["task"]))
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
