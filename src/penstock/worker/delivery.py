"""A message that a handler works on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Unpack

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client
from penstock.commands import lease_row as c
from penstock.commands import write
from penstock.commands.command import Command, utc
from penstock.commands.payload import decode_json, decode_payload
from penstock.commands.write.enqueueing import json_message
from penstock.errors import LeaseLostError
from penstock.model.lease_columns import LEASE_FIELDS
from penstock.model.message import Lease, MessageOptions, OnConflict, Unique
from penstock.tasks.chain import BATCH_HEADER, CHAIN_HEADER

if TYPE_CHECKING:
    from penstock.tasks.task import Task
    from penstock.worker.handlers import Handler
    from penstock.worker.runner import Runner

# Of a token: see sql/layout.
HISTORY_BIT: Final = 16
# The header names as they are before decoding, which takes longer than most messages need.
_BATCH_HEADER_TEXT: Final = f'"{BATCH_HEADER}"'
_CHAIN_HEADER_TEXT: Final = f'"{CHAIN_HEADER}"'


def _column(field: str) -> Any:
    """A field of the lease, read from the row when it is accessed."""
    place = LEASE_FIELDS[field]
    if place in c.TIMES:
        return property(lambda delivery: utc(delivery._row[place]))
    return property(lambda delivery: delivery._row[place])


class Delivery:
    """One message, delivered to its handler under a lease that the worker keeps.

    The fields are those of `Lease`; payload and headers are decoded when they are first read.
    """

    key: str | None = _column("key")
    priority: int = _column("priority")
    group: str | None = _column("group")
    enqueued_at: datetime = _column("enqueued_at")
    expires_at: datetime | None = _column("expires_at")
    last_error: str | None = _column("last_error")
    original_queue: str | None = _column("original_queue")
    _begun = 0.0  # the time of the call of its handler, by perf_counter
    _counted_bytes = 0  # of its size, if its runner limits the size of what it holds
    _task_in_child: Task[..., Any] | None = None  # the task that runs in this process, a child

    def __init__(self, runner: Runner, row: Sequence[Any], now: float) -> None:
        self._row = row
        self._runner = runner
        self.id: int = row[c.ID]
        self.token: int = row[c.TOKEN]
        self.attempt: int = row[c.ATTEMPT]
        self.max_attempts: int = row[c.MAX_ATTEMPTS]
        # By this machine's monotonic clock, because its wall clock may be an hour off.
        self._lease_seconds: float = row[c.REMAINING]
        self._held_until = now + row[c.REMAINING]
        self._task: asyncio.Task[None] | None = None
        self._handler: Handler | None = None  # set when its run begins
        self._enqueues: list[Mapping[str, Any]] = []  # with the ack
        self._alarm: asyncio.TimerHandle | None = None  # at the end of the handler's timeout
        self._ended: str | None = None
        self._acked_elsewhere = False

    def __repr__(self) -> str:
        return f"<Delivery {self.id} of {self.queue}, attempt {self.attempt}>"

    @property
    def queue(self) -> str:
        return self._runner.queue

    @cached_property
    def payload(self) -> Any:
        return decode_payload(self._row[c.PAYLOAD], self._row[c.PAYLOAD_BYTES])

    @cached_property
    def headers(self) -> Mapping[str, Any]:
        return decode_json(self._row[c.HEADERS]) or {}

    @property
    def _waited_seconds(self) -> float:
        """How long the message has waited since it was enqueued, when it was claimed."""
        return self._row[c.WAITED]  # type: ignore[no-any-return]

    @property
    def lease(self) -> Lease:
        """The lease as it was claimed, for verbs of the client."""
        return c.decode_lease(self._row[: c.REMAINING])

    @property
    def client(self) -> AsyncClient:
        """The worker's client, for what the handler enqueues itself."""
        return self._runner.client

    @property
    def is_lost(self) -> bool:
        """Whether the lease was lost or the handler was stopped. For handlers in threads."""
        return self._ended is not None or monotonic() > self._held_until

    def raise_if_lost(self) -> None:
        """Raise LeaseLostError if another worker may have the message now."""
        if self.is_lost:
            raise LeaseLostError(
                f"the lease on message {self.id} is lost: {self._ended or 'it expired'}",
                hint="Stop, because its outcome can no longer be settled.",
                id=self.id,
            )

    @property
    def batch_id(self) -> int | None:
        """The id of the batch that the message is a member of or follows, or None."""
        id = self.headers.get(BATCH_HEADER)
        return id if isinstance(id, int) else None

    @property
    def leaves_no_history(self) -> bool:
        """Whether nothing is left of the message after its ack, except its result."""
        return not self.token & HISTORY_BIT

    @property
    def _headers_text(self) -> str:
        return self._row[c.HEADERS] or ""

    @property
    def _may_be_member(self) -> bool:
        return _BATCH_HEADER_TEXT in self._headers_text

    @property
    def _is_in_chain(self) -> bool:
        return _CHAIN_HEADER_TEXT in self._headers_text and CHAIN_HEADER in self.headers

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Show how much of the work is done on the page of the message.

        The latest report is stored about once a second.

        Args:
            fraction: The part that is done, from 0 to 1.
            note: A text to show with it. None leaves the previous text.
        """
        if self._runner.reports is not None:
            self._runner.reports.progress(self.id, self.attempt, fraction, note)

    def log(self, line: str) -> None:
        """Add a line to the log on the page of the message. The last 100 lines are kept.

        Args:
            line: The text, of which 500 characters are kept.
        """
        if self._runner.reports is not None:
            self._runner.reports.log(self.id, self.attempt, line)

    def enqueue_with_ack(
        self,
        queue: str,
        payload: Any,
        *,
        on_conflict: OnConflict = "replace",
        unique: Unique = "waiting",
        **options: Unpack[MessageOptions],
    ) -> None:
        """Enqueue a message together with the ack of this one.

        Both are committed together. If the handler fails, the message is not enqueued. Tasks have
        the same: `task.enqueue_with_ack(...)`.

        Args:
            queue: The name of the queue.
            payload: Any JSON value.
            on_conflict: What to do if the key is taken, as in `Client.enqueue`.
            unique: The messages that the key is compared with, as in `Client.enqueue`.
            options: `key`, `priority`, `group`, `delay`, `visible_at`, `ttl`, `headers` and
                `max_attempts`, as in `Client.enqueue`.
        """
        command = write.enqueue(queue, payload, on_conflict=on_conflict, unique=unique, **options)
        self._enqueues.append(json_message(command))

    async def ack_with(self, connection: Any, *, result: Any = None) -> None:
        """Ack in the handler's own transaction, so that its writes and the ack commit together.

        The worker acks again when the handler returns, which changes nothing then.

        Args:
            connection: A psycopg AsyncConnection, or a SQLAlchemy session or connection.
            result: The value that the task will return. It is stored, and passed to the next step
                of a chain, in the same transaction. So are the calls of `enqueue_with_ack`.

        Raises:
            LeaseLostError: The lease is lost. Let the transaction roll back.
        """
        await AsyncClient(connection=connection).run(self._ack_command(result))
        self._acked_elsewhere = True

    def ack_with_sync(self, connection: Any, *, result: Any = None) -> None:
        """As `ack_with`, for handlers in threads.

        Args:
            connection: A psycopg Connection, or a SQLAlchemy session or connection.
            result: The value that the task will return.
        """
        Client(connection=connection).run(self._ack_command(result))
        self._acked_elsewhere = True

    def _ack_command(self, result: Any) -> Command[None]:
        task = self._task_in_child if self._handler is None else self._handler.task
        if task is None and not self._enqueues:
            return write.ack((self.id, self.token))
        # Imported here, because handlers import deliveries.
        from penstock.worker.task_handlers import ack_command

        return ack_command(self, task, result)
