"""The reapers, and the activity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.commands import read
from penstock.commands.write import (
    create_queue,
    create_schedule,
    drop_schedule,
    fire_schedules,
    maintain,
    set_schedule,
)
from penstock.commands.write.idempotency import forget_expired
from penstock.errors import InvalidValueError, ScheduleNotFoundError
from penstock.server import fields as f
from penstock.server.auth.visible_activity import visible_activity
from penstock.server.background import expire
from penstock.server.control.runner import QUEUE, TASK_SETTINGS
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("admin")
SCHEDULE: Final = "penstock.delete-reaper"


class Expired(Struct):
    """The number of messages that expired now."""

    expired: int


class Deleted(Struct):
    """The number of expired messages that were deleted."""

    deleted: int


class FiredSchedules(Struct, kw_only=True):
    """The number of messages that were enqueued, and the time of the next fire."""

    count: int
    next_fire_at: datetime | None


class Maintain(Struct, forbid_unknown_fields=True):
    """With `full_pass`, all tables are looked at, not only those that need it."""

    full_pass: bool = False


class Maintained(Struct):
    """What was done, by the name of the work."""

    done: dict[str, Any]


class NewSchedule(Struct, forbid_unknown_fields=True):
    """A cron rule in UTC. An empty rule means never."""

    schedule: Annotated[
        str,
        Meta(
            max_length=200,
            description="minute, hour, day of month, month, day of week",
            extra_json_schema={"format": "cron", "examples": ["0 3 * * *", "@daily", ""]},
        ),
    ]


class ReaperSchedule(Struct, kw_only=True):
    """The schedule of the delete reaper. An empty one means never."""

    schedule: str
    last_run_at: datetime | None
    next_run_at: datetime | None


class Act(Struct, kw_only=True):
    """One action of an operator."""

    id: str
    at: datetime
    actor: str
    act: str
    target: str | None
    details: dict[str, Any]
    request_id: str | None
    address: str | None


class Acts(Struct):
    items: list[Act]
    next: str | None


class FindActs(Struct, forbid_unknown_fields=True, kw_only=True):
    actor: f.Filter | None = None
    target: f.Filter | None = None
    cursor: f.Cursor | None = None
    limit: f.Limit = 100


@endpoint("POST", "/api/admin/expiry-reaper/run", answers={200: Expired})
async def run_expiry_reaper(call: Call) -> Expired:
    """End messages whose time to live is over. The server also does this every minute."""
    count = await expire(call.context.database)
    await call.note("run expiry reaper", None, expired=count)
    return Expired(count)


@endpoint("POST", "/api/admin/delete-reaper/run", answers={200: Deleted})
async def run_delete_reaper(call: Call) -> Deleted:
    """Delete expired messages from history."""
    count = await call.act(forget_expired(), "run delete reaper", None)
    return Deleted(count)


@endpoint("POST", "/api/admin/schedules/run", answers={200: FiredSchedules})
async def fire_due_schedules(call: Call) -> FiredSchedules:
    """Fire the schedules that are due. Workers and the server do this by themselves."""
    fired = await call.act(fire_schedules(), "fire schedules", None)
    return FiredSchedules(count=fired.count, next_fire_at=fired.next_fire_at)


@endpoint("POST", "/api/admin/maintain", body=Maintain, answers={200: Maintained})
async def run_maintenance(call: Call) -> Maintained:
    """Do the upkeep now that claims and workers do from time to time."""
    command = maintain(full_pass=call.body.full_pass)
    return Maintained(await call.act(command, "maintain", None))


@endpoint("GET", "/api/admin/delete-reaper/schedule", answers={200: ReaperSchedule})
async def show_delete_schedule(call: Call) -> ReaperSchedule:
    """The schedule of the delete reaper."""
    return await _schedule(call)


async def _schedule(call: Call) -> ReaperSchedule:
    try:
        found = await call.run(read.schedule(SCHEDULE))
    except ScheduleNotFoundError:
        return ReaperSchedule(schedule="", last_run_at=None, next_run_at=None)
    return ReaperSchedule(
        schedule=found.cron, last_run_at=found.last_fire_at, next_run_at=found.next_fire_at
    )


@endpoint(
    "PUT",
    "/api/admin/delete-reaper/schedule",
    body=NewSchedule,
    answers={200: ReaperSchedule},
)
async def put_delete_schedule(call: Call) -> ReaperSchedule:
    """Set the cron rule of the delete reaper. One of the servers runs it each time."""
    rule = call.body.schedule.strip()
    if rule:
        await call.run(create_queue(QUEUE, changes=TASK_SETTINGS, exist_ok=True))
        payload = {"chore": "delete-reaper"}
        made = create_schedule(SCHEDULE, QUEUE, rule, payload, {"key": SCHEDULE}, exist_ok=True)
        with _rule_errors():
            if not await call.act(made, "schedule delete reaper", None, schedule=rule):
                change = set_schedule(SCHEDULE, {"cron": rule})
                await call.act(change, "schedule delete reaper", None, schedule=rule)
    else:
        with suppress(ScheduleNotFoundError):
            await call.act(drop_schedule(SCHEDULE), "schedule delete reaper", None, schedule="")
    return await _schedule(call)


@contextmanager
def _rule_errors() -> Iterator[None]:
    """The errors of a cron rule, which this call has in the field `schedule`."""
    try:
        yield
    except InvalidValueError as error:
        if error.field != "cron":
            raise
        text = f"schedule is not a cron rule; allowed: {error.allowed}"
        raise InvalidValueError(text, field="schedule", allowed=error.allowed) from None


@endpoint("GET", "/api/admin/activity", query=FindActs, answers={200: Acts})
async def list_activity(call: Call) -> Acts:
    """The actions of operators on queues that the key may operate, newest first.

    A page may have fewer than `limit` entries, because actions on other queues are left out.
    Continue while `next` is present.
    """
    query: FindActs = call.query
    command = read.activity(
        actor=query.actor,
        target=query.target,
        before=int(query.cursor) if query.cursor else None,
        limit=query.limit,
    )
    found = await call.run(command)
    more = str(found[-1].id) if len(found) == query.limit else None
    items = [
        Act(
            id=str(each.id),
            at=each.at,
            actor=each.actor,
            act=each.act,
            target=each.target,
            details=dict(each.details),
            request_id=each.request_id,
            address=each.address,
        )
        for each in visible_activity(call.principal, found)
    ]
    return Acts(items, more)
