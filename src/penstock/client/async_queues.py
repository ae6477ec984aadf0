"""The client's verbs for queues. The sync module is generated from the async one."""

from __future__ import annotations

from typing import Any, Unpack

from penstock.client.async_command_runner import AsyncCommandRunner
from penstock.commands import read, write
from penstock.commands.write.workers import WorkerCommand
from penstock.model.queue import (
    Queue,
    QueueSettings,
    QueueStats,
    SettingsChange,
    WorkerLeases,
)


class AsyncQueueVerbs(AsyncCommandRunner):
    """Creates, changes, reads and drops queues. A part of the client."""

    async def create_queue(
        self,
        name: str,
        settings: QueueSettings | None = None,
        *,
        exist_ok: bool = False,
        **changes: Unpack[SettingsChange],
    ) -> bool:
        """Create a queue.

        Args:
            name: The name of the queue.
            settings: The settings. The default is the defaults of `QueueSettings`.
            exist_ok: Do not raise if the queue exists. The existing queue does not change.
            **changes: Settings by name, such as `max_attempts=3`. They override `settings`.

        Returns:
            True if the queue was created, False if it existed.

        Raises:
            QueueExistsError: The queue exists, and `exist_ok` is False.
            InvalidQueueNameError: The name breaks the rules for names.
            InvalidValueError: A setting is unknown or out of range.
        """
        return await self.run(write.create_queue(name, settings, changes, exist_ok=exist_ok))

    async def set_queue(
        self, name: str, settings: QueueSettings | None = None, **changes: Unpack[SettingsChange]
    ) -> None:
        """Change settings of a queue. The next call uses the new settings.

        Args:
            name: The name of the queue.
            settings: All settings. The default is to change only `changes`.
            **changes: Settings by name. None resets a setting to its default.

        Raises:
            QueueNotFoundError: The queue does not exist.
            InvalidValueError: A setting is unknown or out of range.
        """
        await self.run(write.set_queue(name, settings, changes))

    async def drop_queue(self, name: str, *, force: bool = False) -> int:
        """Drop a queue and its settings.

        Args:
            name: The name of the queue.
            force: Drop the queue even if it contains messages or has schedules.

        Returns:
            The number of messages that were deleted with the queue.

        Raises:
            QueueNotFoundError: The queue does not exist.
            QueueNotEmptyError: The queue contains messages, and `force` is False.
            QueueHasSchedulesError: The queue has schedules, and `force` is False.
        """
        return await self.run(write.drop_queue(name, force=force))

    async def pause(self, name: str) -> None:
        """Stop delivering the messages of a queue. A paused queue still accepts messages.

        Leased messages are not affected. Their holders can settle them.

        Args:
            name: The name of the queue.

        Raises:
            QueueNotFoundError: The queue does not exist.
        """
        await self.run(write.pause(name))

    async def resume(self, name: str) -> None:
        """Deliver the messages of a paused queue again.

        It has no effect on a queue that is not paused.

        Args:
            name: The name of the queue.

        Raises:
            QueueNotFoundError: The queue does not exist.
        """
        await self.run(write.resume(name))

    async def purge(
        self, name: str, *, include_leased: bool = False, max_count: int | None = None
    ) -> int:
        """Delete the waiting messages of a queue.

        Args:
            name: The name of the queue. `<queue>.dlq` deletes its dead letters.
            include_leased: Delete leased messages too. Their holders lose the leases.
            max_count: The largest number of messages. The default is all.

        Returns:
            The number of deleted messages.

        Raises:
            QueueNotFoundError: The queue does not exist.
        """
        return await self.run(write.purge(name, include_leased=include_leased, max_count=max_count))

    async def queues(self) -> list[Queue]:
        """Read all queues and their settings.

        Returns:
            The queues, in order of name.
        """
        return await self.run(read.queues())

    async def queue(self, name: str) -> Queue:
        """Read one queue and its settings.

        Args:
            name: The name of the queue.

        Returns:
            The queue.

        Raises:
            QueueNotFoundError: The queue does not exist.
        """
        return await self.run(read.queue(name))

    async def stats(self, name: str) -> QueueStats:
        """Count the messages of a queue by state.

        Args:
            name: The name of the queue.

        Returns:
            The counts. They are estimates if the queue is too large to count.

        Raises:
            QueueNotFoundError: The queue does not exist.
        """
        return await self.run(read.stats(name))

    async def workers(self) -> list[WorkerLeases]:
        """Count the leases of each worker and queue.

        Returns:
            One row for each worker and queue with leases.
        """
        return await self.run(read.workers())

    async def undo_purge(self, name: str) -> int:
        """Enqueue copies of what the latest purge of a queue removed, within an hour.

        The copies have new ids. A message whose key waits again is skipped.

        Args:
            name: The name of the queue, or `<queue>.dlq` for its dead letters.

        Returns:
            The number of copies.

        Raises:
            QueueNotFoundError: The queue does not exist.
            NothingToUndoError: There is no purge of the last hour that is not undone.
        """
        return await self.run(write.undo_purge(name))

    async def command_worker(self, worker: str, command: WorkerCommand) -> None:
        """Tell a worker to claim no more, to claim again, or to end.

        The worker gets the command at once, or with its next report, within 10 seconds.

        Args:
            worker: The name of the worker, as `penstock workers` lists it.
            command: "quiet", "resume" or "stop". A worker that stops finishes what it runs.

        Raises:
            WorkerNotFoundError: No worker of this name was seen within a day.
            WorkerTooOldError: The worker runs a version of Penstock that takes no commands.
        """
        await self.run(write.command_worker(worker, command))

    async def maintain(self, *, full_pass: bool = False) -> dict[str, Any]:
        """Do the upkeep now that claims and workers do from time to time.

        Args:
            full_pass: Look at everything instead of only at what is due.

        Returns:
            What was done, by kind.
        """
        return await self.run(write.maintain(full_pass=full_pass))
