# Generated from client/async_messages.py by tools/generate_client.py. Do not edit.
"""The client's verbs for messages. The sync module is generated from the async one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.client.sync_command_runner import CommandRunner
from penstock.commands import read, write
from penstock.commands.arguments import UNSET
from penstock.model.message import Duration, LiveState, Message, State


class MessageVerbs(CommandRunner):
    """Reads, cancels, redrives and replays messages. A part of the client."""

    def cancel(self, id: int, *, connection: Any = UNSET) -> LiveState:
        """Cancel a message that is waiting, leased or dead. Its holder loses the lease.

        Args:
            id: The id of the message.
            connection: A connection or session of the caller, in whose transaction to cancel.

        Returns:
            The previous state of the message.

        Raises:
            MessageNotFoundError: The message does not exist, or is finished.
        """
        return self.run(write.cancel(id), connection)

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
        """Put dead letters back into their queue, at attempt 0.

        A dead letter is redriven if it matches all given filters. Without a filter, all are.

        Args:
            queue: The name of the queue.
            ids: Only these messages.
            error_like: Only messages whose last error matches this pattern of SQL's LIKE.
            older_than: Only messages that have been dead for longer than this.
            id_from: Only messages with this id or a higher one.
            id_to: Only messages with this id or a lower one.
            max_count: The largest number of messages.
            per_second: Spread the messages out over time, with this many in each second.
            dry_run: Only count the messages.
            connection: A connection or session of the caller, in whose transaction to redrive.

        Returns:
            The number of dead letters that were redriven, or would be.

        Raises:
            QueueNotFoundError: The queue does not exist.
        """
        command = write.redrive(
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
        """Enqueue a copy of a finished message.

        Args:
            id: The id of the finished message.
            queue: The queue for the copy. The default is the queue of the message.
            connection: A connection or session of the caller, in whose transaction to enqueue.

        Returns:
            The id of the copy.

        Raises:
            MessageNotFoundError: No finished message has this id.
            NotReplayableError: History does not have the payload of the message.
        """
        return self.run(write.replay(id, queue), connection)

    def move(self, ids: Sequence[int], queue: str, *, connection: Any = UNSET) -> int:
        """Put waiting messages and dead letters into another queue. They keep their ids.

        Messages that are leased, finished or already in the queue are skipped.

        Args:
            ids: The ids of the messages, up to 10,000.
            queue: The other queue.
            connection: A connection or session of the caller, in whose transaction to move.

        Returns:
            The number of messages that were moved.

        Raises:
            QueueNotFoundError: The queue does not exist.
            QueueFullError: The queue has no room for them. No message was moved.
            PayloadTooLargeError: A payload is larger than the queue allows. No message was moved.
        """
        return self.run(write.move(ids, queue), connection)

    def set_priority(self, ids: Sequence[int], priority: int, *, connection: Any = UNSET) -> int:
        """Change the priority of waiting messages.

        Messages that are not waiting, or have the priority already, are skipped.

        Args:
            ids: The ids of the messages, up to 10,000.
            priority: The priority, -9 to 9.
            connection: A connection or session of the caller, in whose transaction to change it.

        Returns:
            The number of messages that were changed.
        """
        return self.run(write.set_priority(ids, priority), connection)

    def message(self, id: int) -> Message:
        """Read one message, waiting or finished, with its attempts.

        Args:
            id: The id of the message.

        Returns:
            The message.

        Raises:
            MessageNotFoundError: The message was never committed, or its history has been dropped.
        """
        return self.run(read.message(id))

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
        """Read a page of messages, in order of id.

        Args:
            queue: Only messages of this queue.
            state: Only messages in this state. The default is all unfinished states. The states
                "done", "expired", "cancelled" and "superseded" read history.
            key: Only messages with this key.
            error_like: Only messages whose last error matches this pattern of SQL's LIKE.
            after: Only messages with a higher id. Pass the last id of a page to get the next page.
            limit: The largest number of messages, 1 to 10,000.

        Returns:
            The messages, without their attempts.
        """
        command = read.messages(
            queue, state, key=key, error_like=error_like, after=after, limit=limit
        )
        return self.run(command)
