"""A message in the hands of a handler."""

from __future__ import annotations

from asyncio import Task
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client
from penstock.commands import lease_row as c
from penstock.commands import write
from penstock.commands.command import Command, utc
from penstock.commands.payload import decode_json, decode_payload
from penstock.errors import LeaseLostError
from penstock.model.message import Lease
from penstock.tasks.chain import BATCH_HEADER

if TYPE_CHECKING:
    from penstock.worker.app import Handler
    from penstock.worker.runner import Runner

_BATCH_HEADER_TEXT: Final = f'"{BATCH_HEADER}"'


class Delivery:
    """One message, delivered to its handler under a lease that the worker keeps.

    The fields are those of `Lease`; payload and headers are decoded when they are first read.
    """

    _begun = 0.0  # when its handler was called, by perf_counter

    def __init__(self, runner: Runner, row: Sequence[Any], now: float) -> None:
        self._row = row
        self._runner = runner
        self.id: int = row[c.ID]
        self.token: int = row[c.TOKEN]
        self.attempt: int = row[c.ATTEMPT]
        self.max_attempts: int = row[c.MAX_ATTEMPTS]
        # By this machine's steady clock: what its wall clock says may be an hour off.
        self._lease_seconds: float = row[c.REMAINING]
        self._held_until = now + row[c.REMAINING]
        self._task: Task[None] | None = None
        self._handler: Handler | None = None  # set when its run begins
        self._enqueues: list[Mapping[str, Any]] = []  # with the ack
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
    def key(self) -> str | None:
        return self._row[c.KEY]  # type: ignore[no-any-return]

    @property
    def priority(self) -> int:
        return self._row[c.PRIORITY]  # type: ignore[no-any-return]

    @property
    def group(self) -> str | None:
        return self._row[c.GROUP_KEY]  # type: ignore[no-any-return]

    @property
    def enqueued_at(self) -> datetime:
        return utc(self._row[c.ENQUEUED_AT])  # type: ignore[no-any-return]

    @property
    def expires_at(self) -> datetime | None:
        return utc(self._row[c.EXPIRES_AT])  # type: ignore[no-any-return]

    @property
    def last_error(self) -> str | None:
        return self._row[c.LAST_ERROR]  # type: ignore[no-any-return]

    @property
    def original_queue(self) -> str | None:
        return self._row[c.ORIGINAL_QUEUE]  # type: ignore[no-any-return]

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
        """Has the lease been lost, or the handler been told to stop? For handlers in threads."""
        return self._ended is not None or monotonic() > self._held_until

    def raise_if_lost(self) -> None:
        """Raise LeaseLostError if another worker may have the message by now."""
        if self.is_lost:
            raise LeaseLostError(
                f"the lease on message {self.id} is lost: {self._ended or 'it expired'}",
                hint="Nothing that this handler still does will be settled: stop.",
                id=self.id,
            )

    @property
    def batch_id(self) -> int | None:
        """The batch that the message is a member of, or that it follows."""
        id = self.headers.get(BATCH_HEADER)
        return id if isinstance(id, int) else None

    @property
    def _may_be_member(self) -> bool:
        headers = self._row[c.HEADERS]
        return headers is not None and _BATCH_HEADER_TEXT in headers

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Show how far the task is, from 0 to 1, on the page of its message.

        It is stored about once a second, and only the latest report.
        """
        if self._runner.reports is not None:
            self._runner.reports.progress(self.id, self.attempt, fraction, note)

    def log(self, line: str) -> None:
        """Add a line to the log of the task, on the page of its message. The last 100 are kept."""
        if self._runner.reports is not None:
            self._runner.reports.log(self.id, self.attempt, line)

    async def ack_with(self, connection: Any, *, result: Any = None) -> None:
        """Ack in the handler's own transaction: what it writes and the ack commit as one.

        `connection` is a psycopg AsyncConnection, or a SQLAlchemy session or connection. `result`
        is what the task is going to return: it is kept, and handed to the next step of a chain, in
        the same transaction, as are the calls of `enqueue_with_ack`. LeaseLostError if the lease is
        lost: let it roll the transaction back. The worker acks again when the handler returns,
        which then changes nothing.
        """
        await AsyncClient(connection=connection).run(self._ack_command(result))
        self._acked_elsewhere = True

    def ack_with_sync(self, connection: Any, *, result: Any = None) -> None:
        """The same, for handlers in threads."""
        Client(connection=connection).run(self._ack_command(result))
        self._acked_elsewhere = True

    def _ack_command(self, result: Any) -> Command[None]:
        task = None if self._handler is None else self._handler.task
        if task is None and not self._enqueues:
            return write.ack((self.id, self.token))
        # Imported here: handlers are made of deliveries.
        from penstock.worker.task_handlers import ack_command

        return ack_command(self, task, result)
