"""Actions on schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from penstock.commands import read, write
from penstock.commands.command import Command
from penstock.model.schedule import Schedule
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.formats import moment, pretty
from penstock.server.ui.forms import json_of, name_field, require_changes, typed
from penstock.server.ui.pages.queue_actions import check_there
from penstock.server.ui.visits import Visit

MISSED: Final = (
    ("once", "one message for all of them"),
    ("all", "one message for each"),
    ("skip", "none"),
)


COMMANDS: Final[dict[str, Callable[[str], Command[Any]]]] = {
    "pause": write.pause_schedule,
    "resume": write.resume_schedule,
    "fire": write.fire_schedule,
    "drop": write.drop_schedule,
}


class ScheduleAct(Act):
    async def schedule(self, visit: Visit) -> Schedule:
        found = await visit.run(read.schedule(visit.path["name"]))
        visit.principal.require_of(f"schedule {found.name!r}", "operate", found.queue)
        return found


class _Plain(ScheduleAct):
    """Pause, resume, fire and drop, which have no input."""

    verb: str
    text: str
    danger = False

    async def ask(self, visit: Visit) -> Question:
        found = await self.schedule(visit)
        return Question(
            title=f"{self.verb.capitalize()} schedule {found.name}",
            button=self.verb.capitalize(),
            back="/schedules",
            text=[self.text],
            facts={
                "Queue": found.queue,
                "Rule": f"{found.cron} ({found.time_zone})",
                "Next fire": moment(found.next_fire_at),
            },
            danger=self.danger,
        )

    async def do(self, visit: Visit) -> Deed:
        found = await self.schedule(visit)
        return Deed(
            command=COMMANDS[self.verb](found.name),
            act=f"{self.verb} schedule",
            target=found.name,
            to="/schedules",
            details={"queue": found.queue},
            answer_is="id" if self.verb == "fire" else None,
        )


class PauseSchedule(_Plain):
    path = "/schedules/{name}/pause"
    verb = "pause"
    text = "It does not fire until it is resumed. Runs that are due until then are skipped."


class ResumeSchedule(_Plain):
    path = "/schedules/{name}/resume"
    verb = "resume"
    text = "It fires again, beginning with its next time."


class FireSchedule(_Plain):
    path = "/schedules/{name}/fire"
    verb = "fire"
    text = "Its message is enqueued once more, now. Its next run does not change."


class DropSchedule(_Plain):
    path = "/schedules/{name}/drop"
    verb = "drop"
    text = "It is removed. The messages that it enqueued stay."
    danger = True


def _fields(visit: Visit, found: Schedule | None) -> list[Field]:
    payload = None if found is None else pretty(found.payload)
    zone, missed = ("UTC", "once") if found is None else (found.time_zone, found.missed)
    fields = [
        Field(
            name="queue",
            label="Queue",
            required=True,
            value=typed(visit, "queue", found and found.queue) or visit.asked("queue") or "",
        ),
        Field(
            name="cron",
            label="Rule",
            required=True,
            value=typed(visit, "cron", found and found.cron),
            hint="minute hour day month weekday, such as 30 3 * * mon-fri; or @daily",
        ),
        Field(name="time_zone", label="Time zone", value=typed(visit, "time_zone", zone)),
        Field(
            name="missed",
            label="Missed runs",
            kind="select",
            options=MISSED,
            value=typed(visit, "missed", missed),
        ),
    ]
    if not visit.redacts:
        fields.append(
            Field(
                name="payload",
                label="Payload, as JSON",
                kind="textarea",
                value=typed(visit, "payload", payload or "{}"),
            )
        )
    return fields


def _wanted(visit: Visit) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "queue": visit.asked("queue") or "",
        "cron": visit.asked("cron") or "",
        "time_zone": visit.asked("time_zone") or "UTC",
        "missed": visit.asked_one("missed", tuple(name for name, _ in MISSED)),
    }
    if not visit.redacts:
        wanted["payload"] = json_of(visit, "payload")
    return wanted


class CreateSchedule(Act):
    path = "/schedules/create"

    async def ask(self, visit: Visit) -> Question:
        if queue := visit.asked("queue"):
            visit.principal.require("operate", queue)
        return Question(
            title="Create a schedule",
            button="Create",
            back="/schedules",
            text=["The schedule enqueues one message at each time of its rule."],
            fields=[name_field(visit, "name"), *_fields(visit, None)],
        )

    async def do(self, visit: Visit) -> Deed:
        name, wanted = visit.asked("name") or "", _wanted(visit)
        queue, cron = wanted.pop("queue"), wanted.pop("cron")
        payload = wanted.pop("payload", None)
        visit.principal.require("operate", queue)
        await check_there(visit, queue)
        return Deed(
            command=write.create_schedule(name, queue, cron, payload, wanted),
            act="create schedule",
            target=name,
            to="/schedules",
            details={"queue": queue, "cron": cron, **wanted},
        )


class EditSchedule(ScheduleAct):
    path = "/schedules/{name}/edit"

    async def ask(self, visit: Visit) -> Question:
        found = await self.schedule(visit)
        return Question(
            title=f"Edit schedule {found.name}",
            button="Save",
            back="/schedules",
            text=["With another rule or time zone, the next run is computed from now."],
            fields=_fields(visit, found),
        )

    async def do(self, visit: Visit) -> Deed:
        found, wanted = await self.schedule(visit), _wanted(visit)
        visit.principal.require("operate", wanted["queue"])
        await check_there(visit, wanted["queue"])
        changes: Any = {n: value for n, value in wanted.items() if value != getattr(found, n)}
        require_changes(changes)
        return Deed(
            command=write.set_schedule(found.name, changes),
            act="set schedule",
            target=found.name,
            to="/schedules",
            details={"queue": wanted["queue"], "settings": changes},
        )


def schedule_path(name: str, rest: str) -> str:
    return f"/schedules/{quote(name, safe='')}/{rest}"


ACTS: Final = (
    CreateSchedule(),
    EditSchedule(),
    PauseSchedule(),
    ResumeSchedule(),
    FireSchedule(),
    DropSchedule(),
)
