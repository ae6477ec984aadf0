# Generated from client_async.py by tools/generate_client.py: change that file, not this.
"""The client: every verb of the queue as a method. `client.py` is generated from this file."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from penstock import forks, insights, operations
from penstock.arguments import UNSET
from penstock.client_schedules import ScheduleVerbs
from penstock.command import Command
from penstock.connections import Connections, given
from penstock.message import (
    Duration,
    Enqueued,
    Lease,
    LeaseLike,
    LiveState,
    Message,
    OnConflict,
    SettledState,
    State,
    Unique,
)
from penstock.operations.leases import Note
from penstock.queue import Queue, QueueSettings, QueueStats, SettingsChange, WorkerLeases
from penstock.streams import chunks
from penstock.together import Together

T = TypeVar("T")


class Client(ScheduleVerbs):
    """A queue client over a pool of connections, or over one connection of the caller's.

    Without a DSN, `PENSTOCK_DSN` or `DATABASE_URL` names the database; without those, the
    embedded one is started. `connection=`, here or in a verb, runs the statements in the caller's
    own transaction, and commits nothing: a psycopg connection, or a SQLAlchemy session or
    connection over psycopg. After a fork, a child process opens connections of its own. Behind a
    transaction-mode pooler that does not know prepared statements, use `prepare_threshold=None`.
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
        self._connections = Connections(
            dsn,
            given(connection),
            min_size=min_size,
            max_size=max_size,
            timeout=timeout,
            prepare_threshold=prepare_threshold,
        )
        self._gather = connection is UNSET
        self._after_fork()
        forks.register(self)

    def _after_fork(self) -> None:
        """In a child process: calls of the parent that are under way are not ours."""
        self.worker = self._worker or f"{socket.gethostname()}:{os.getpid()}"
        self._together = Together(self.run, gather=self._gather)

    def open(self) -> None:
        """Connect and check the schema now; the first call does it otherwise."""
        self._connections.open()

    def close(self) -> None:
        """Close the pool. A connection of the caller's stays open."""
        self._connections.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, command: Command[T], connection: Any = UNSET) -> T:
        """Run any command of `penstock.operations` or `penstock.insights`."""
        return self._connections.run(command, given(connection))

    # Messages in

    def enqueue(
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
        """Put one message in; its id. With a key, perhaps the id of the one that has it already."""
        command = operations.enqueue(
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
        return self.run(command, connection)

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
        """Put in any number of payloads or NewMessages, all or none, holding one chunk at a time.

        The transaction stays open while the iterable is read.
        """
        stream = chunks(queue, messages, chunk_size, on_conflict, unique)
        with closing(stream):
            command, last = next(stream)
            if last:  # one statement is atomic by itself
                return self.run(command, connection)
            with self._connections.transaction(given(connection)) as joined:
                done = self.run(command, joined)
                for command, _ in stream:
                    done += self.run(command, joined)
            return done

    # Messages out, under a lease

    def claim(
        self,
        queue: str,
        count: int = 1,
        *,
        lease_seconds: Duration | None = None,
        worker: str | None = None,
        connection: Any = UNSET,
    ) -> list[Lease]:
        """Take up to `count` messages; fewer, or none, if no more are ready."""
        return self._together.claim(queue, count, lease_seconds, worker or self.worker, connection)

    def ack(self, lease: LeaseLike, *, connection: Any = UNSET) -> None:
        """Done. LeaseLostError if the lease is no longer held: then nothing was changed."""
        self._together.ack(lease, connection)

    def ack_many(self, leases: Sequence[LeaseLike], *, connection: Any = UNSET) -> set[int]:
        """The ids that were settled; a missing one had lost its lease."""
        return self._together.ack_many(leases, connection)

    def nack(
        self,
        lease: LeaseLike,
        error: Note = None,
        delay: Duration | None = None,
        *,
        connection: Any = UNSET,
    ) -> SettledState:
        """Give it back with an error; the state reached. Without a delay, the queue's backoff."""
        return self.run(operations.nack(lease, error, delay), connection)

    def nack_many(
        self,
        leases: Sequence[LeaseLike],
        error: Note | Sequence[Note] = None,
        delay: Duration | Sequence[Duration | None] | None = None,
        *,
        connection: Any = UNSET,
    ) -> dict[int, SettledState]:
        """`error` and `delay` for all, or lists with one for each lease; id -> state reached."""
        return self.run(operations.nack_many(leases, error, delay), connection)

    def reject(
        self, lease: LeaseLike, reason: Note = None, *, connection: Any = UNSET
    ) -> SettledState:
        """Straight to the dead letters: no further attempt would help."""
        return self.run(operations.reject(lease, reason), connection)

    def reject_many(
        self,
        leases: Sequence[LeaseLike],
        reason: Note | Sequence[Note] = None,
        *,
        connection: Any = UNSET,
    ) -> dict[int, SettledState]:
        return self.run(operations.reject_many(leases, reason), connection)

    def snooze(
        self, lease: LeaseLike, delay: Duration = 0, *, connection: Any = UNSET
    ) -> SettledState:
        """Back to the queue without burning the attempt."""
        return self.run(operations.snooze(lease, delay), connection)

    def snooze_many(
        self,
        leases: Sequence[LeaseLike],
        delay: Duration | Sequence[Duration] = 0,
        *,
        connection: Any = UNSET,
    ) -> dict[int, SettledState]:
        return self.run(operations.snooze_many(leases, delay), connection)

    def extend(
        self,
        lease: LeaseLike,
        seconds: Duration | None = None,
        *,
        connection: Any = UNSET,
    ) -> datetime:
        """Hold it longer, from now on; the new `lease_until`."""
        return self.run(operations.extend(lease, seconds), connection)

    def extend_many(
        self,
        leases: Sequence[LeaseLike],
        seconds: Duration | None = None,
        *,
        connection: Any = UNSET,
    ) -> dict[int, datetime]:
        """id -> new `lease_until`; a missing one had lost its lease."""
        return self.run(operations.extend_many(leases, seconds), connection)

    # Messages by id or by filter

    def cancel(self, id: int, *, connection: Any = UNSET) -> LiveState:
        """Take a message out, even one in work; the state it was cancelled from."""
        return self.run(operations.cancel(id), connection)

    def redrive(
        self,
        queue: str,
        *,
        ids: Sequence[int] | None = None,
        error_like: str | None = None,
        older_than: Duration | None = None,
        id_from: int | None = None,
        id_to: int | None = None,
        max_count: int | None = None,
        per_second: float | None = None,
        dry_run: bool = False,
        connection: Any = UNSET,
    ) -> int:
        """Put dead letters back into their queue, at attempt 0; how many (or how many would go)."""
        command = operations.redrive(
            queue,
            ids=ids,
            error_like=error_like,
            older_than=older_than,
            id_from=id_from,
            id_to=id_to,
            max_count=max_count,
            per_second=per_second,
            dry_run=dry_run,
        )
        return self.run(command, connection)

    def replay(self, id: int, queue: str | None = None, *, connection: Any = UNSET) -> int:
        """Enqueue a copy of a finished message, into its own queue or another; the copy's id."""
        return self.run(operations.replay(id, queue), connection)

    def message(self, id: int) -> Message:
        """One message, live or finished, with its attempts."""
        return self.run(insights.message(id))

    def messages(
        self,
        queue: str | None = None,
        state: State | None = None,
        *,
        key: str | None = None,
        error_like: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[Message]:
        """A page by id, of live messages or of one final state; the next is `after` its last."""
        command = insights.messages(
            queue, state, key=key, error_like=error_like, after=after, limit=limit
        )
        return self.run(command)

    # Queues

    def create_queue(
        self,
        name: str,
        settings: QueueSettings | None = None,
        *,
        exist_ok: bool = False,
        **changes: Unpack[SettingsChange],
    ) -> bool:
        """Make a queue; False if it was there already (and `exist_ok`): it is left as it is."""
        return self.run(operations.create_queue(name, settings, changes, exist_ok=exist_ok))

    def set_queue(
        self, name: str, settings: QueueSettings | None = None, **changes: Unpack[SettingsChange]
    ) -> None:
        """Change the settings given, leave the others; None puts one back to its default."""
        self.run(operations.set_queue(name, settings, changes))

    def drop_queue(self, name: str, *, force: bool = False) -> int:
        """Remove a queue; with messages in it only if forced. How many went with it."""
        return self.run(operations.drop_queue(name, force=force))

    def pause(self, name: str) -> None:
        """Give out no more messages; enqueue goes on."""
        self.run(operations.pause(name))

    def resume(self, name: str) -> None:
        self.run(operations.resume(name))

    def purge(
        self, name: str, *, include_leased: bool = False, max_count: int | None = None
    ) -> int:
        """Delete what waits in a queue (`<queue>.dlq`: its dead letters); how many."""
        return self.run(operations.purge(name, include_leased=include_leased, max_count=max_count))

    def queues(self) -> list[Queue]:
        return self.run(insights.queues())

    def queue(self, name: str) -> Queue:
        return self.run(insights.queue(name))

    def stats(self, name: str) -> QueueStats:
        """How many messages a queue holds in each state."""
        return self.run(insights.stats(name))

    def workers(self) -> list[WorkerLeases]:
        """Who holds leases, on which queues."""
        return self.run(insights.workers())

    def maintain(self, *, full_pass: bool = False) -> dict[str, Any]:
        """Do now what claims do in passing; what was done."""
        return self.run(operations.maintain(full_pass=full_pass))
