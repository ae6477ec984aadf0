"""A message in the hands of a handler."""

from __future__ import annotations

from asyncio import Task
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any

from penstock import operations
from penstock.client import Client
from penstock.client_async import AsyncClient
from penstock.command import Command, utc
from penstock.errors import LeaseLostError
from penstock.message import Lease
from penstock.payload import decode_json, decode_payload

if TYPE_CHECKING:
    from penstock.worker.runner import Runner


class Delivery:
    """One message, delivered to its handler under a lease that the worker keeps.

    The fields are those of `Lease`; payload and headers are decoded when they are first read.
    """

    def __init__(self, runner: Runner, row: Sequence[Any], now: float) -> None:
        self._row = row
        self._runner = runner
        self.id: int = row[0]
        self.token: int = row[1]
        self.attempt: int = row[2]
        self.max_attempts: int = row[3]
        # By this machine's steady clock: what its wall clock says may be an hour off.
        self._lease_seconds: float = row[4]
        self._held_until = now + row[4]
        self._task: Task[None] | None = None
        self._ended: str | None = None
        self._acked_elsewhere = False

    def __repr__(self) -> str:
        return f"<Delivery {self.id} of {self.queue}, attempt {self.attempt}>"

    @property
    def queue(self) -> str:
        return self._runner.queue

    @cached_property
    def payload(self) -> Any:
        return decode_payload(self._row[6], self._row[7])

    @cached_property
    def headers(self) -> Mapping[str, Any]:
        return decode_json(self._row[8]) or {}

    @property
    def key(self) -> str | None:
        return self._row[9]  # type: ignore[no-any-return]

    @property
    def priority(self) -> int:
        return self._row[10]  # type: ignore[no-any-return]

    @property
    def group(self) -> str | None:
        return self._row[11]  # type: ignore[no-any-return]

    @property
    def enqueued_at(self) -> datetime:
        return utc(self._row[12])  # type: ignore[no-any-return]

    @property
    def expires_at(self) -> datetime | None:
        return utc(self._row[14])  # type: ignore[no-any-return]

    @property
    def last_error(self) -> str | None:
        return self._row[15]  # type: ignore[no-any-return]

    @property
    def original_queue(self) -> str | None:
        return self._row[16]  # type: ignore[no-any-return]

    @property
    def lease(self) -> Lease:
        """The lease as it was claimed, for verbs of the client."""
        return Lease(
            *(self.id, self.token, self.queue, self.payload, self.headers, self.key),
            *(self.priority, self.group, self.attempt, self.max_attempts, self.enqueued_at),
            *(utc(self._row[13]), self.expires_at, self.last_error, self.original_queue),
        )

    @property
    def client(self) -> AsyncClient:
        """The worker's client, for what the handler enqueues itself."""
        return self._runner.client

    @property
    def is_lost(self) -> bool:
        """Has the lease been lost, or the handler been told to stop? For handlers in threads."""
        return self._ended is not None or monotonic() > self._held_until

    def raise_if_lost(self) -> None:
        """LeaseLostError if somebody else may have the message by now."""
        if self.is_lost:
            raise LeaseLostError(
                f"the lease on message {self.id} is lost: {self._ended or 'it ran out'}",
                hint="Nothing that this handler still does will be settled: stop.",
                id=self.id,
            )

    async def ack_with(self, connection: Any) -> None:
        """Ack in the handler's own transaction: what it writes and the ack commit as one.

        `connection` is a psycopg AsyncConnection, or a SQLAlchemy session or connection.
        LeaseLostError if the lease is lost: let it roll the transaction back. The worker acks
        again when the handler returns, which then changes nothing.
        """
        await AsyncClient(connection=connection).run(self._ack_command())
        self._acked_elsewhere = True

    def ack_with_sync(self, connection: Any) -> None:
        """The same, for handlers in threads."""
        Client(connection=connection).run(self._ack_command())
        self._acked_elsewhere = True

    def _ack_command(self) -> Command[None]:
        return operations.ack((self.id, self.token))
