"""The client. The sync module is generated from the async one."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.client.async_chunks import Chunks, chunks
from penstock.client.async_leases import AsyncLeases
from penstock.client.async_messages import AsyncMessageVerbs
from penstock.client.async_queues import AsyncQueueVerbs
from penstock.client.async_schedules import AsyncScheduleVerbs
from penstock.client.async_settling import AsyncSettlingVerbs
from penstock.client.telemetry import receiving, sending, settling, settling_many
from penstock.commands import write
from penstock.commands.arguments import UNSET
from penstock.commands.command import Command
from penstock.db import forks
from penstock.db.async_connections import AsyncConnections, given
from penstock.model.message import (
    Duration,
    Enqueued,
    Lease,
    LeaseLike,
    OnConflict,
    Unique,
)

T = TypeVar("T")


class AsyncClient(AsyncSettlingVerbs, AsyncMessageVerbs, AsyncQueueVerbs, AsyncScheduleVerbs):
    """Enqueues, claims and settles messages in PostgreSQL.

    A client has a pool of connections, or works on one connection of the caller. The pool opens at
    the first call, at `open()`, or at the start of the `with` block. After a fork, the child
    process opens new connections.

    Every verb that has a `connection` argument can run in the caller's transaction. It commits
    nothing there.

    Args:
        dsn: The database, as a `postgresql://` URL or `key=value` pairs. The default is
            `PENSTOCK_DSN`, then `DATABASE_URL`, then the embedded PostgreSQL.
        min_size: The number of connections that the pool keeps open.
        max_size: The largest number of connections of the pool.
        timeout: The number of seconds to wait for a free connection.
        prepare_threshold: The number of executions after which a statement is prepared. Use None
            behind a transaction-mode pooler that does not support prepared statements.
        worker: The name under which the client claims. The default is `host:process id`.
        connection: A psycopg connection, or a SQLAlchemy session or connection over psycopg. All
            verbs run in its transaction, and the client opens no pool.

    Raises:
        ConfigurationError: The DSN is not an address of PostgreSQL.
        InvalidValueError: `connection` is not a connection that the client can use.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        min_size: int = 1,
        max_size: int = 10,
        timeout: float = 10,
        prepare_threshold: int | None = 5,
        worker: str | None = None,
        connection: Any = UNSET,
    ) -> None:
        self._worker = worker
        self._connections = AsyncConnections(
            dsn,
            given(connection),
            min_size=min_size,
            max_size=max_size,
            timeout=timeout,
            prepare_threshold=prepare_threshold,
        )
        self._shares = connection is UNSET
        self._after_fork()
        forks.register(self)

    def _after_fork(self) -> None:
        """Forget the calls in progress: in a child process, they belong to the parent."""
        self.worker = self._worker or f"{socket.gethostname()}:{os.getpid()}"
        self._leases = AsyncLeases(self.run, share=self._shares)

    async def open(self) -> None:
        """Connect and check the schema now instead of at the first call.

        Raises:
            DatabaseUnavailableError: PostgreSQL cannot be reached.
            SchemaMissingError: The database has no `penstock` schema, or one that is too old.
            SchemaNewerError: A newer version of Penstock migrated the database.
        """
        await self._connections.open()

    async def close(self) -> None:
        """Close the pool. A connection of the caller stays open."""
        await self._connections.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def run(self, command: Command[T], connection: Any = UNSET) -> T:
        """Run a command of `penstock.operations`.

        Args:
            command: The command.
            connection: A connection or session of the caller, in whose transaction to run.

        Returns:
            The result of the command: the value that the verb of the same name returns.
        """
        return await self._connections.run(command, given(connection))

    async def enqueue(
        self,
        queue: str,
        payload: Any,
        *,
        key: str | None = None,
        priority: int = 0,
        group: str | None = None,
        delay: Duration | None = None,
        visible_at: datetime | None = None,
        ttl: Duration | None = None,
        headers: Mapping[str, Any] | None = None,
        max_attempts: int | None = None,
        on_conflict: OnConflict = "replace",
        unique: Unique = "waiting",
        connection: Any = UNSET,
    ) -> int:
        """Enqueue one message.

        Args:
            queue: The name of the queue.
            payload: Any JSON value, or `bytes`, which are stored as bytes.
            key: At most one waiting message of a queue has a given key. See `on_conflict`.
            priority: -9 to 9. Higher priorities are delivered first.
            group: Messages of one group are delivered in order, one at a time.
            delay: The time until the message can be claimed: a timedelta or seconds.
            visible_at: The time from which the message can be claimed, with a time zone. Give
                either `delay` or `visible_at`.
            ttl: The time after which the message expires if it has not been delivered.
            headers: A dict of JSON values. `traceparent` is added if OpenTelemetry has an active
                span.
            max_attempts: Overrides the setting of the queue.
            on_conflict: What to do if the key is taken. "replace" stores the new payload and
                headers under the existing id, "skip" keeps the existing message, "error" raises.
            unique: The messages that a key is compared with: "waiting" ones, or all "unfinished"
                ones, which includes leased messages. Leased messages are never replaced.
            connection: A connection or session of the caller, in whose transaction to enqueue.

        Returns:
            The id of the message. With "replace" or "skip", it may be the id of the existing
            message.

        Raises:
            QueueNotFoundError: The queue does not exist.
            QueueFullError: The queue contains `max_depth` messages.
            PayloadTooLargeError: The payload is larger than `max_payload_bytes` of the queue.
            PayloadNotStorableError: JSON or PostgreSQL cannot store the payload or the headers.
            KeyConflictError: The key is taken, and `on_conflict` is "error".
            InvalidValueError: An argument has the wrong type or is out of range.
        """
        with sending(queue) as sent:
            command = write.enqueue(
                queue,
                payload,
                key=key,
                priority=priority,
                group=group,
                delay=delay,
                visible_at=visible_at,
                ttl=ttl,
                headers=headers,
                max_attempts=max_attempts,
                on_conflict=on_conflict,
                unique=unique,
            )
            id = sent.id = await self.run(command, connection)
        return id

    async def enqueue_many(
        self,
        queue: str,
        messages: Iterable[Any] | AsyncIterable[Any],
        *,
        chunk_size: int = 1000,
        on_conflict: OnConflict = "replace",
        unique: Unique = "waiting",
        connection: Any = UNSET,
    ) -> Enqueued:
        """Enqueue any number of messages in one transaction.

        Memory holds one chunk at a time. The transaction stays open while the iterable is read, so
        read a slow source completely first.

        Args:
            queue: The name of the queue.
            messages: Payloads, or `NewMessage`s for messages with options.
            chunk_size: The number of messages in one statement, 1 to 10,000.
            on_conflict: What to do if a key is taken, as in `enqueue`.
            unique: The messages that a key is compared with, as in `enqueue`.
            connection: A connection or session of the caller, in whose transaction to enqueue.

        Returns:
            The number of messages, and the first and the last id.

        Raises:
            PenstockError: As in `enqueue`. Nothing is enqueued then.
        """
        stream = chunks(queue, messages, chunk_size, on_conflict, unique)
        with sending(queue) as sent:
            sent.count = 0
            done = await self._enqueue_chunks(stream, connection)
            sent.count = done.count
        return done

    async def _enqueue_chunks(self, stream: Chunks, connection: Any) -> Enqueued:
        async with aclosing(stream):
            command, last = await anext(stream)
            if last:  # one statement is atomic by itself
                return await self.run(command, connection)
            async with self._connections.transaction(given(connection)) as joined:
                done = await self.run(command, joined)
                async for command, _ in stream:
                    done += await self.run(command, joined)
            return done

    async def claim(
        self,
        queue: str,
        count: int = 1,
        *,
        lease_seconds: Duration | None = None,
        worker: str | None = None,
        connection: Any = UNSET,
    ) -> list[Lease]:
        """Lease messages that are ready, highest priority first.

        Args:
            queue: The name of the queue. `<queue>.dlq` claims its dead letters.
            count: The largest number of messages, 1 to 10,000.
            lease_seconds: The duration of the leases. The default is the setting of the queue.
            worker: The name of the holder. The default is the name of the client.
            connection: A connection or session of the caller, in whose transaction to claim.

        Returns:
            Up to `count` leases. The list is empty if no message is ready.

        Raises:
            QueueNotFoundError: The queue does not exist.
        """
        with receiving(queue) as received:
            leases = await self._leases.claim(
                queue, count, lease_seconds, worker or self.worker, connection
            )
            received.note(leases)
        return leases

    async def ack(self, lease: LeaseLike, *, connection: Any = UNSET) -> None:
        """Settle a message as done.

        Args:
            lease: The lease, or its `(id, token)`.
            connection: A connection or session of the caller, in whose transaction to settle.

        Raises:
            LeaseLostError: The lease expired, or the message was settled. Nothing was changed.
        """
        with settling("ack", lease):
            await self._leases.ack(lease, connection)

    async def ack_many(self, leases: Sequence[LeaseLike], *, connection: Any = UNSET) -> set[int]:
        """Settle many messages as done.

        Args:
            leases: The leases, or their `(id, token)`s.
            connection: A connection or session of the caller, in whose transaction to settle.

        Returns:
            The ids that were settled. The ids of lost leases are missing.
        """
        with settling_many("ack", leases) as settled:
            ids = await self._leases.ack_many(leases, connection)
            settled.count = len(ids)
        return ids
