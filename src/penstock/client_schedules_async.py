"""The client's verbs for schedules. `client_schedules.py` is generated from this file."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, Unpack

from penstock import insights, operations
from penstock.arguments import UNSET
from penstock.command import Command
from penstock.schedule import Fired, Schedule, ScheduleChange, ScheduleOptions

T = TypeVar("T")


class AsyncScheduleVerbs:
    """Cron rules that enqueue by themselves; part of the client."""

    async def run(self, command: Command[T], connection: Any = UNSET) -> T:
        raise NotImplementedError

    async def create_schedule(
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
        return await self.run(command, connection)

    async def set_schedule(
        self,
        name: str,
        *,
        connection: Any = UNSET,
        **changes: Unpack[ScheduleChange],
    ) -> None:
        """Change the settings given, leave the others; None puts one back to its default."""
        await self.run(operations.set_schedule(name, changes), connection)

    async def drop_schedule(self, name: str) -> None:
        """Remove a schedule; the messages that it enqueued stay."""
        await self.run(operations.drop_schedule(name))

    async def pause_schedule(self, name: str) -> None:
        """Do not fire until it is resumed."""
        await self.run(operations.pause_schedule(name))

    async def resume_schedule(self, name: str) -> None:
        """Fire again; what was due while it was paused is not made up for."""
        await self.run(operations.resume_schedule(name))

    async def fire_schedule(self, name: str, *, connection: Any = UNSET) -> int:
        """Enqueue its message now; its id. When it fires next stays as it is."""
        return await self.run(operations.fire_schedule(name), connection)

    async def fire_schedules(self) -> Fired:
        """Enqueue for every schedule that is due. Workers do it; each fire is enqueued once."""
        return await self.run(operations.fire_schedules())

    async def next_fires(
        self, cron: str, time_zone: str = "UTC", count: int = 5, *, after: datetime | None = None
    ) -> list[datetime]:
        """The next times at which a rule fires."""
        return await self.run(operations.next_fires(cron, time_zone, count, after=after))

    async def schedules(self) -> list[Schedule]:
        return await self.run(insights.schedules())

    async def schedule(self, name: str) -> Schedule:
        return await self.run(insights.schedule(name))
