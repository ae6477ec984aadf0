# Generated from client/async_schedules.py by tools/generate_client.py. Do not edit.
"""The client's verbs for schedules. The sync module is generated from the async one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack

from penstock.client.sync_command_runner import CommandRunner
from penstock.commands import read, write
from penstock.commands.arguments import UNSET
from penstock.model.schedule import Fired, Schedule, ScheduleChange, ScheduleOptions


class ScheduleVerbs(CommandRunner):
    """Creates, changes, fires and drops schedules. A part of the client."""

    def create_schedule(
        self,
        name: str,
        queue: str,
        cron: str,
        payload: Any = None,
        *,
        exist_ok: bool = False,
        connection: Any = UNSET,
        **options: Unpack[ScheduleOptions],
    ) -> bool:
        """Create a schedule, which enqueues a message whenever its cron rule fires.

        Workers fire schedules. Each fire is enqueued once, for any number of workers.

        Args:
            name: The name of the schedule.
            queue: The queue for the messages.
            cron: Five fields (minute, hour, day of month, month, day of week), or @hourly, @daily,
                @weekly, @monthly or @yearly.
            payload: The payload of the messages, a JSON value.
            exist_ok: Do not raise if the schedule exists. The existing schedule does not change.
            connection: A connection or session of the caller, in whose transaction to create it.
            **options: `time_zone`, `headers`, `key`, `priority`, `group`, `ttl_seconds`,
                `max_attempts`, `missed`, `missed_after_seconds` and `paused`.

        Returns:
            True if the schedule was created, False if it existed.

        Raises:
            ScheduleExistsError: The schedule exists, and `exist_ok` is False.
            QueueNotFoundError: The queue does not exist.
            InvalidValueError: The rule or an option is not valid.
        """
        command = write.create_schedule(name, queue, cron, payload, options, exist_ok=exist_ok)
        return self.run(command, connection)

    def set_schedule(
        self,
        name: str,
        *,
        connection: Any = UNSET,
        **changes: Unpack[ScheduleChange],
    ) -> None:
        """Change settings of a schedule.

        Args:
            name: The name of the schedule.
            connection: A connection or session of the caller, in whose transaction to change it.
            **changes: `queue`, `cron`, `payload` and the options of `create_schedule`, by name.
                None resets an option to its default.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.
            InvalidValueError: A setting is unknown or not valid.
        """
        self.run(write.set_schedule(name, changes), connection)

    def drop_schedule(self, name: str) -> None:
        """Drop a schedule. The messages that it enqueued stay.

        Args:
            name: The name of the schedule.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.
        """
        self.run(write.drop_schedule(name))

    def pause_schedule(self, name: str) -> None:
        """Stop firing a schedule until it is resumed.

        Args:
            name: The name of the schedule.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.
        """
        self.run(write.pause_schedule(name))

    def resume_schedule(self, name: str) -> None:
        """Fire a paused schedule again. Fires that were due during the pause are skipped.

        Args:
            name: The name of the schedule.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.
        """
        self.run(write.resume_schedule(name))

    def fire_schedule(self, name: str, *, connection: Any = UNSET) -> int:
        """Enqueue the message of a schedule now. The next fire stays the same.

        Args:
            name: The name of the schedule.
            connection: A connection or session of the caller, in whose transaction to enqueue.

        Returns:
            The id of the message.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.
        """
        return self.run(write.fire_schedule(name), connection)

    def fire_schedules(self) -> Fired:
        """Enqueue the messages of all schedules that are due. Workers call this.

        Returns:
            The number of messages, and the time of the next fire.
        """
        return self.run(write.fire_schedules())

    def next_fires(
        self, cron: str, time_zone: str = "UTC", count: int = 5, *, after: datetime | None = None
    ) -> list[datetime]:
        """Compute the next times at which a cron rule fires.

        Args:
            cron: The rule, as in `create_schedule`.
            time_zone: A name of the tz database, such as "Europe/Vienna".
            count: The number of times.
            after: The times are later than this. The default is now.

        Returns:
            The times, in UTC.

        Raises:
            InvalidValueError: The rule or the time zone is not valid.
        """
        return self.run(write.next_fires(cron, time_zone, count, after=after))

    def schedules(self) -> list[Schedule]:
        """Read all schedules.

        Returns:
            The schedules, in order of name.
        """
        found: list[Schedule] = []
        has_more = True
        while has_more:
            after = found[-1].name if found else None
            page, has_more = self.run(read.schedule_page(after=after))
            found += page
        return found

    def schedule(self, name: str) -> Schedule:
        """Read one schedule.

        Args:
            name: The name of the schedule.

        Returns:
            The schedule: its rule, its settings, the time of its next fire, and the error of the
            last one if it failed.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.
        """
        return self.run(read.schedule(name))
