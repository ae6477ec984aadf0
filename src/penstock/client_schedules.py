# Generated from client_schedules_async.py by tools/generate_client.py: change that file, not this.
"""The client's verbs for schedules. `client_schedules.py` is generated from this file."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, Unpack

from penstock import insights, operations
from penstock.arguments import UNSET
from penstock.command import Command
from penstock.schedule import Fired, Schedule, ScheduleChange, ScheduleOptions

T = TypeVar("T")


class ScheduleVerbs:
    """Cron rules that enqueue by themselves; part of the client."""

    def run(self, command: Command[T], connection: Any = UNSET) -> T:
        raise NotImplementedError

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
        """Enqueue whenever the rule fires; False if the schedule was there (and `exist_ok`)."""
        command = operations.create_schedule(name, queue, cron, payload, options, exist_ok=exist_ok)
        return self.run(command, connection)

    def set_schedule(
        self,
        name: str,
        *,
        connection: Any = UNSET,
        **changes: Unpack[ScheduleChange],
    ) -> None:
        """Change the settings given, leave the others; None puts one back to its default."""
        self.run(operations.set_schedule(name, changes), connection)

    def drop_schedule(self, name: str) -> None:
        """Remove a schedule; the messages that it enqueued stay."""
        self.run(operations.drop_schedule(name))

    def pause_schedule(self, name: str) -> None:
        """Do not fire until it is resumed."""
        self.run(operations.pause_schedule(name))

    def resume_schedule(self, name: str) -> None:
        """Fire again; what was due while it was paused is not made up for."""
        self.run(operations.resume_schedule(name))

    def fire_schedule(self, name: str, *, connection: Any = UNSET) -> int:
        """Enqueue its message now; its id. When it fires next stays as it is."""
        return self.run(operations.fire_schedule(name), connection)

    def fire_schedules(self) -> Fired:
        """Enqueue for every schedule that is due. Workers do it; each fire is enqueued once."""
        return self.run(operations.fire_schedules())

    def next_fires(
        self, cron: str, time_zone: str = "UTC", count: int = 5, *, after: datetime | None = None
    ) -> list[datetime]:
        """The next times at which a rule fires."""
        return self.run(operations.next_fires(cron, time_zone, count, after=after))

    def schedules(self) -> list[Schedule]:
        return self.run(insights.schedules())

    def schedule(self, name: str) -> Schedule:
        return self.run(insights.schedule(name))
