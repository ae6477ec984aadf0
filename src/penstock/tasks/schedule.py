"""Schedules that the code declares, and how they get into the database."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.commands import read
from penstock.commands.command import Command
from penstock.commands.write.schedules import create_schedule, drop_schedule, set_schedule
from penstock.errors import (
    ConfigurationError,
    InvalidValueError,
    QueueNotFoundError,
    TaskArgumentsError,
)
from penstock.model.message import Duration
from penstock.model.schedule import Missed, Schedule
from penstock.tasks.task import Task

DECLARED_HEADER: Final = "penstock-declared"
"""The name of the application in the headers of the schedules that come from its code."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9._-]")
Run = Callable[[Command[Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """A schedule as the code says it is."""

    name: str
    task: Task[..., Any]
    cron: str
    time_zone: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    missed: Missed

    def settings(self, application: str) -> dict[str, Any]:
        """The settings by name. TaskArgumentsError if the arguments do not fit the task."""
        message = self.task._json_message(self.args, dict(self.kwargs))
        if message["delay"] is not None or message["visible_at"] is not None:
            raise ConfigurationError(
                f"schedule {self.name!r} has a delay",
                hint="A schedule determines when a task runs.",
            )
        headers = {n: v for n, v in message["headers"].items() if n != "traceparent"}
        ttl = message["ttl"]
        return {
            "queue": message["queue"],
            "cron": self.cron,
            "time_zone": self.time_zone,
            "payload": message["payload"],
            "headers": {**headers, DECLARED_HEADER: application},
            "key": message["key"],
            "priority": message["priority"],
            "group": message["group_key"],
            "ttl_seconds": None if ttl is None else round(float(ttl.split()[0])),
            "max_attempts": message["max_attempts"],
            "missed": self.missed,
        }


def declared(
    task: Task[..., Any],
    name: str | None,
    cron: str | None,
    every: Duration | None,
    time_zone: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    missed: Missed,
) -> DeclaredSchedule:
    """A schedule of a task, by a rule or a period."""
    if (cron is None) == (every is None):
        raise check.refuse("schedule", f"cron {cron!r}, every {every!r}", "either cron or every")
    if not isinstance(args, list | tuple):
        raise check.refuse("args", args, "a list of the arguments, such as args=['daily']")
    if not isinstance(kwargs, Mapping):
        raise check.refuse("kwargs", kwargs, "a dictionary of the arguments by name")
    name = _NOT_IN_NAMES.sub("-", task.name.lower()) if name is None else check.text("name", name)
    rule = _every(every) if cron is None else check.text("cron", cron)
    return DeclaredSchedule(name, task, rule, time_zone, tuple(args), dict(kwargs), missed)


def _every(every: Duration | None) -> str:
    seconds = check.whole_seconds("every", every)
    if seconds is None or not 1 <= seconds <= 31_536_000:
        raise check.refuse("every", every, "1 second to 365 days")
    return f"@every {seconds}s"


class DeclaredSchedules:
    """The schedules of an application, by name. `application` returns the name of that."""

    def __init__(self, application: Callable[[], str]) -> None:
        self._application = application
        self._by_name: dict[str, DeclaredSchedule] = {}

    def add(self, schedule: DeclaredSchedule) -> None:
        if schedule.name in self._by_name:
            raise ConfigurationError(
                f"the schedule {schedule.name!r} is declared twice",
                hint="Give one of them another name: @app.schedule(name=...).",
            )
        self._by_name[schedule.name] = schedule

    def __iter__(self) -> Iterator[DeclaredSchedule]:
        return iter(self._by_name.values())

    async def bring(self, run: Run) -> list[str]:
        """Create the schedules that are missing, and change those that differ; their names.

        Whether a schedule is paused stays as it is in the database.
        """
        if not self._by_name:
            return []
        there = {schedule.name: schedule for schedule in await run(read.schedules())}
        changed = []
        for each in self:
            try:
                if await _bring(each, self._application(), there.get(each.name), run):
                    changed.append(each.name)
            except (InvalidValueError, QueueNotFoundError, TaskArgumentsError) as error:
                raise ConfigurationError(
                    f"schedule {each.name!r} cannot be stored: {error.message}", hint=error.hint
                ) from error
        return changed

    async def drop_others(self, run: Run) -> list[str]:
        """Drop the schedules that this application no longer declares; their names."""
        application = self._application()
        dropped = [
            schedule.name
            for schedule in await run(read.schedules())
            if schedule.headers.get(DECLARED_HEADER) == application
            and schedule.name not in self._by_name
        ]
        for name in dropped:
            await run(drop_schedule(name))
        return dropped


async def _bring(
    declared: DeclaredSchedule, application: str, found: Schedule | None, run: Run
) -> bool:
    """Whether the schedule was created or changed."""
    settings = declared.settings(application)
    if found is None:
        options = {n: v for n, v in settings.items() if n not in _ARGUMENTS}
        queue, cron, payload = (settings[name] for name in _ARGUMENTS)
        name = declared.name
        if await run(create_schedule(name, queue, cron, payload, options, exist_ok=True)):
            return True
    elif not _differs(found, settings):
        return False
    await run(set_schedule(declared.name, settings))  # type: ignore[arg-type]
    return True


_ARGUMENTS: Final = ("queue", "cron", "payload")


def _differs(found: Schedule, settings: Mapping[str, Any]) -> bool:
    return any(getattr(found, name) != value for name, value in settings.items())
