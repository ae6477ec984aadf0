# Generated from http_client/async_client.py by tools/generate_client.py. Do not edit.
"""The client over HTTP. The sync module is generated from the async one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, TypeVar

from penstock.client.sync_chunks import chunks
from penstock.client.sync_client import Client as QueueClient
from penstock.commands import read, write
from penstock.commands.arguments import UNSET, refuse, text, whole
from penstock.commands.command import Command
from penstock.db import forks
from penstock.errors import ServerRefusedError
from penstock.http_client.responses import lease_of
from penstock.http_client.sync_connection import HttpConnection
from penstock.model.message import Duration, Enqueued, Lease, LeaseLike, OnConflict, Unique
from penstock.model.schedule import Schedule

T = TypeVar("T")
MAX_WAIT = 20


class Client(QueueClient):
    """The client over HTTP: the verbs of the client over SQL. Each call is one transaction.

    The verbs have no `connection`. To enqueue or settle together with your own statements, use the
    client over SQL. `enqueue_many` sends all messages in one request and holds them in memory.

    Args:
        url: The address of the server, such as "http://localhost:8080".
        key: An API key, such as "psk_...".
        timeout: The number of seconds to wait for a response.
        max_size: The largest number of connections to the server.
        worker: The name under which the client claims. The default is `host:process id`.
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
        self._http = HttpConnection(
            text("url", url), text("key", key), timeout=timeout, max_size=max_size
        )

    def _after_fork(self) -> None:
        self.worker = self._worker or f"{socket.gethostname()}:{os.getpid()}"

    def open(self) -> None:
        """Check that the server responds and accepts the key.

        Raises:
            ServerUnavailableError: The server does not respond.
            AuthenticationError: The server does not accept the key.
        """
        try:
            self.run(read.schema_version())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections to the server."""
        self._http.close()

    def run(self, command: Command[T], connection: Any = UNSET) -> T:
        """Run a command that one of the verbs consists of.

        Args:
            command: The command.
            connection: Not supported over HTTP.

        Returns:
            The result of the command.
        """
        _refuse_connection(connection)
        [answer] = self._http.run([command])
        found: T = answer
        return found

    def enqueue_many(
        self,
        queue: str,
        messages: Iterable[Any],
        *,
        chunk_size: int = 1000,
        on_conflict: OnConflict = "replace",
        unique: Unique = "waiting",
        connection: Any = UNSET,
    ) -> Enqueued:
        """Enqueue many messages in one request and one transaction.

        Args:
            queue: The name of the queue.
            messages: Payloads, or `NewMessage`s for messages with options.
            chunk_size: The number of messages in one statement, 1 to 10,000.
            on_conflict: What to do if a key is taken, as in `enqueue`.
            unique: The messages that a key is compared with, as in `enqueue`.
            connection: Not supported over HTTP.

        Returns:
            The number of messages, and the first and the last id.

        Raises:
            PenstockError: As in `enqueue`. Nothing is enqueued then.
        """
        _refuse_connection(connection)
        commands = []
        with closing(chunks(queue, messages, chunk_size, on_conflict, unique)) as stream:
            for command, _ in stream:
                commands.append(command)
        done = Enqueued(0, None, None)
        for part in self._http.run(commands):
            done += part
        return done

    def ack(self, lease: LeaseLike, *, connection: Any = UNSET) -> None:
        """Settle a message as done.

        Args:
            lease: The lease, or its `(id, token)`.
            connection: Not supported over HTTP.

        Raises:
            LeaseLostError: The lease expired, or the message was settled. Nothing was changed.
        """
        self.run(write.ack(lease), connection)

    def ack_many(self, leases: Sequence[LeaseLike], *, connection: Any = UNSET) -> set[int]:
        """Settle many messages as done.

        Args:
            leases: The leases, or their `(id, token)`s.
            connection: Not supported over HTTP.

        Returns:
            The ids that were settled. The ids of lost leases are missing.
        """
        return self.run(write.ack_many(leases), connection)

    def schedules(self) -> list[Schedule]:
        """Read all schedules.

        Returns:
            The schedules, in order of name.
        """
        try:
            return super().schedules()
        except ServerRefusedError as error:
            if error.fields.get("code") != "UnknownVerb":
                raise
            return self.run(read.schedules())  # an older server has no pages

    def claim(
        self,
        queue: str,
        count: int = 1,
        *,
        lease_seconds: Duration | None = None,
        worker: str | None = None,
        wait_seconds: int = 0,
        connection: Any = UNSET,
    ) -> list[Lease]:
        """Lease messages that are ready, highest priority first.

        Args:
            queue: The name of the queue. `<queue>.dlq` claims its dead letters.
            count: The largest number of messages, 1 to 10,000.
            lease_seconds: The duration of the leases. The default is the setting of the queue.
            worker: The name of the holder. The default is the name of the client.
            wait_seconds: The number of seconds, 0 to 20, to wait for a message if none is ready.
            connection: Not supported over HTTP.

        Returns:
            Up to `count` leases. The list is empty if no message is ready.

        Raises:
            QueueNotFoundError: The queue does not exist.
        """
        _refuse_connection(connection)
        command = write.claim(
            queue, count, lease_seconds=lease_seconds, worker=worker or self.worker
        )
        if not whole("wait_seconds", wait_seconds):
            return self.run(command)
        if not 0 <= wait_seconds <= MAX_WAIT:
            raise refuse("wait_seconds", wait_seconds, f"0 to {MAX_WAIT}")
        body = {
            "topic": queue,
            "count": count,
            "visibility_timeout_seconds": command.params["lease_seconds"],
            "wait_seconds": wait_seconds,
            "worker": command.params["worker"],
        }
        return [lease_of(message) for message in self._http.dequeue(body, wait_seconds)]


def _refuse_connection(connection: Any) -> None:
    if connection is not UNSET:
        raise refuse("connection", connection, "nothing, because each HTTP call is a transaction")
