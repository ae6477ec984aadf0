"""The client over HTTP. `client.py` is generated from this file."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from penstock import forks, insights, operations
from penstock.arguments import UNSET, refuse, text, whole
from penstock.client_async import AsyncClient as QueueClient
from penstock.command import Command
from penstock.http.line_async import AsyncLine
from penstock.http.replies import lease_of
from penstock.message import Duration, Enqueued, Lease, LeaseLike, OnConflict, Unique
from penstock.streams_async import chunks

T = TypeVar("T")
MAX_WAIT = 20


class AsyncClient(QueueClient):
    """The verbs of the client over SQL, by way of a server; each call is a transaction.

    There is no `connection=` here: what has to happen together with other statements needs SQL.
    `enqueue_many` sends everything in one call, all or none, and holds it in memory until then.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = 30,
        max_size: int = 10,
        worker: str | None = None,
    ) -> None:
        self._worker = worker
        self._after_fork()
        forks.register(self)
        self._line = AsyncLine(
            text("url", url), text("key", key), timeout=timeout, max_size=max_size
        )

    def _after_fork(self) -> None:
        self.worker = self._worker or f"{socket.gethostname()}:{os.getpid()}"

    async def open(self) -> None:
        """See whether the server answers, and knows the key."""
        try:
            await self.run(insights.schema_version())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._line.close()

    async def run(self, command: Command[T], connection: Any = UNSET) -> T:
        """Run one of the commands that the verbs are made of."""
        _refuse_connection(connection)
        [answer] = await self._line.run([command])
        found: T = answer
        return found

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
        """Put in many payloads or NewMessages, all or none, in one call."""
        _refuse_connection(connection)
        commands = []
        async with aclosing(chunks(queue, messages, chunk_size, on_conflict, unique)) as stream:
            async for command, _ in stream:
                commands.append(command)
        done = Enqueued(0, None, None)
        for part in await self._line.run(commands):
            done += part
        return done

    async def ack(self, lease: LeaseLike, *, connection: Any = UNSET) -> None:
        """Done. LeaseLostError if the lease is no longer held: then nothing was changed."""
        await self.run(operations.ack(lease), connection)

    async def ack_many(self, leases: Sequence[LeaseLike], *, connection: Any = UNSET) -> set[int]:
        """The ids that were settled; a missing one had lost its lease."""
        return await self.run(operations.ack_many(leases), connection)

    async def claim(
        self,
        queue: str,
        count: int = 1,
        *,
        lease_seconds: Duration | None = None,
        worker: str | None = None,
        wait_seconds: int = 0,
        connection: Any = UNSET,
    ) -> list[Lease]:
        """Take up to `count` messages; with `wait_seconds`, wait for one as long as that."""
        _refuse_connection(connection)
        command = operations.claim(
            queue, count, lease_seconds=lease_seconds, worker=worker or self.worker
        )
        if not whole("wait_seconds", wait_seconds):
            return await self.run(command)
        if not 0 <= wait_seconds <= MAX_WAIT:
            raise refuse("wait_seconds", wait_seconds, f"0 to {MAX_WAIT}")
        body = {
            "topic": queue,
            "count": count,
            "visibility_timeout_seconds": command.params["lease_seconds"],
            "wait_seconds": wait_seconds,
            "worker": command.params["worker"],
        }
        return [lease_of(message) for message in await self._line.dequeue(body, wait_seconds)]


def _refuse_connection(connection: Any) -> None:
    if connection is not UNSET:
        raise refuse("connection", connection, "none: over HTTP each call is a transaction")
