"""Schedules: cron rules that enqueue messages into topics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock.commands import read, write
from penstock.commands.arguments import optional_text
from penstock.commands.command import Command
from penstock.db.async_connections import AnyConnection
from penstock.model import schedule
from penstock.model.access import Scope
from penstock.server import fields as f
from penstock.server.api import documents as d
from penstock.server.api.header_rules import check_headers
from penstock.server.api.rendering import raw_json
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("schedules")
Cron = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="minute, hour, day of month, month, day of week; or @daily; or @every 30s",
        extra_json_schema={"format": "cron", "examples": ["0 3 * * *", "@daily"]},
    ),
]
TimeZone = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="an IANA time zone; the default is UTC",
        extra_json_schema={"format": "time-zone", "examples": ["UTC", "Europe/Berlin"]},
    ),
]
Missed = Literal["once", "all", "skip"]
MissedAfter = Annotated[
    int, Meta(ge=1, le=86_400, description="with `skip`: the largest delay of a run, in seconds")
]


class ScheduleOptions(Struct, forbid_unknown_fields=True, kw_only=True):
    """The message of a schedule and its options. Null means the default."""

    json: Any | UnsetType = UNSET
    time_zone: TimeZone | UnsetType | None = UNSET
    metadata: f.Metadata | UnsetType | None = UNSET
    key: f.Key | UnsetType | None = UNSET
    priority: f.Priority | UnsetType | None = UNSET
    group: f.Group | UnsetType | None = UNSET
    ttl_seconds: f.ScheduleTtl | UnsetType | None = UNSET
    max_retries: f.MaxRetries | UnsetType | None = UNSET
    missed: Missed | UnsetType | None = UNSET
    missed_after_seconds: MissedAfter | UnsetType | None = UNSET
    paused: bool | UnsetType | None = UNSET


class CreateSchedule(ScheduleOptions, forbid_unknown_fields=True, kw_only=True):
    """A schedule to create."""

    name: f.PlainName
    topic: f.Name
    cron: Cron


class ChangeSchedule(ScheduleOptions, forbid_unknown_fields=True, kw_only=True):
    """The settings to change."""

    topic: f.Name | UnsetType = UNSET
    cron: Cron | UnsetType = UNSET


class Schedule(Struct, kw_only=True):
    """A schedule: its message, its last and its next run."""

    name: str
    topic: str
    cron: str
    time_zone: str
    json: Any
    metadata: Raw | dict[str, Any]
    key: str | None
    priority: int
    group: str | None
    ttl_seconds: int | None
    max_retries: int | None
    missed: Missed
    missed_after_seconds: int
    paused: bool
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    last_message_id: str | None
    last_error: str | None
    created_at: datetime
    updated_at: datetime


class Schedules(Struct):
    """A page of schedules. `next` is the cursor of the next page."""

    items: list[Schedule]
    next: str | None = None


class FindSchedules(Struct, forbid_unknown_fields=True, kw_only=True):
    """The place where the page begins, and its size."""

    cursor: (
        Annotated[str, Meta(pattern=f.NAME_PATTERN, description="`next` of the previous page")]
        | None
    ) = None
    limit: f.Limit = 100


@endpoint("GET", "/api/schedules", query=FindSchedules, answers={200: Schedules})
async def list_schedules(call: Call) -> Schedules:
    """The schedules of the topics that the key may read, by name."""
    query: FindSchedules = call.query
    command = read.schedule_page(
        queues=await readable_queues(call),
        after=query.cursor,
        limit=query.limit,
        max_bytes=call.context.settings.answer_bytes,
        as_text=True,
    )
    found, has_more = await call.run(command)
    next_cursor = found[-1].name if has_more else None
    return Schedules([_document(each) for each in found], next_cursor)


async def readable_queues(call: Call, connection: AnyConnection | None = None) -> list[str] | None:
    """The queues that the key may read. None means all."""
    if call.principal.is_admin:
        return None
    found = await call.context.database.run(read.queues(), connection or call.connection)
    return call.principal.only("read", [queue.name for queue in found])


@endpoint(
    "POST", "/api/schedules", body=CreateSchedule, answers={201: Schedule}, problems=(404, 409)
)
async def create_schedule(call: Call) -> Schedule:
    """Create a schedule. 409 if the name is taken."""
    body: CreateSchedule = call.body
    call.require("operate", body.topic)
    payload = None if body.json is UNSET else body.json
    options = _settings(body)
    options.pop("payload", None)
    command = write.create_schedule(body.name, body.topic, body.cron, payload, options)
    return await _act(call, command, "create schedule", body.name)


@endpoint("GET", "/api/schedules/{schedule}", answers={200: Schedule}, problems=(404,))
async def show_schedule(call: Call) -> Schedule:
    """One schedule."""
    return _document(await covered_schedule(call, "read", call.path["schedule"]))


@endpoint(
    "PATCH",
    "/api/schedules/{schedule}",
    body=ChangeSchedule,
    answers={200: Schedule},
    problems=(404,),
)
async def change_schedule(call: Call) -> Schedule:
    """Change the given settings."""
    body: ChangeSchedule = call.body
    name = await _name(call)
    changes = _settings(body)
    if body.topic is not UNSET:
        call.require("operate", body.topic)
        changes["queue"] = body.topic
    if body.cron is not UNSET:
        changes["cron"] = body.cron
    command = write.set_schedule(name, changes)  # type: ignore[arg-type]  # checked above
    return await _act(call, command, "set schedule", name)


@endpoint("DELETE", "/api/schedules/{schedule}", answers={200: Schedule}, problems=(404,))
async def delete_schedule(call: Call) -> Schedule:
    """Remove a schedule. Messages that it has enqueued stay."""
    found = await covered_schedule(call, "operate", call.path["schedule"])
    command = write.drop_schedule(found.name)
    await call.act(command, "drop schedule", found.name, queue=found.queue)
    return _document(found)


@endpoint("POST", "/api/schedules/{schedule}/pause", answers={200: Schedule}, problems=(404,))
async def pause_schedule(call: Call) -> Schedule:
    """Pause a schedule until it is resumed."""
    name = await _name(call)
    return await _act(call, write.pause_schedule(name), "pause schedule", name)


@endpoint("POST", "/api/schedules/{schedule}/resume", answers={200: Schedule}, problems=(404,))
async def resume_schedule(call: Call) -> Schedule:
    """Resume a schedule. It fires again at its next time."""
    name = await _name(call)
    return await _act(call, write.resume_schedule(name), "resume schedule", name)


@endpoint(
    "POST", "/api/schedules/{schedule}/fire", answers={201: d.Enqueued}, problems=(404, 409, 429)
)
async def fire_schedule(call: Call) -> d.Enqueued:
    """Enqueue its message now. Its next run does not change."""
    found = await covered_schedule(call, "operate", call.path["schedule"])
    command = write.fire_schedule(found.name)
    id = await call.act(command, "fire schedule", found.name, queue=found.queue)
    return d.Enqueued(str(id))


class FireTimesOf(Struct, forbid_unknown_fields=True, kw_only=True):
    """A cron rule, its time zone, and the number of times, all of them later than `after`."""

    cron: Cron
    time_zone: TimeZone = "UTC"
    count: Annotated[int, Meta(ge=1, le=100, description="how many times")] = 5
    after: (
        Annotated[
            datetime, Meta(tz=True, description="the times are later than this; the default is now")
        ]
        | None
    ) = None


class FireTimes(Struct):
    times: list[datetime]


@endpoint("GET", "/api/cron/next", query=FireTimesOf, answers={200: FireTimes})
async def preview_cron(call: Call) -> FireTimes:
    """The next times at which a cron rule fires."""
    query: FireTimesOf = call.query
    command = write.next_fires(query.cron, query.time_zone, query.count, after=query.after)
    return FireTimes(await call.run(command))


async def covered_schedule(
    call: Call, scope: Scope, name: str, connection: AnyConnection | None = None
) -> schedule.Schedule:
    """The schedule, if the key covers its queue."""
    command = read.schedule(name, as_text=True)
    found = await call.context.database.run(command, connection or call.connection)
    call.require_of(f"schedule {name!r}", scope, found.queue)
    return found


async def _name(call: Call) -> str:
    return (await covered_schedule(call, "operate", call.path["schedule"])).name


async def _act(call: Call, command: Command[Any], act: str, name: str) -> Schedule:
    """Change a schedule, check its new queue and record the action, in one transaction."""
    database = call.context.database
    async with call.transaction() as connection:
        await database.run(command, connection)
        changed = await covered_schedule(call, "operate", name, connection)
        note = call.context.activity(call.principal, call.exchange, act, name, queue=changed.queue)
        await database.run(note, connection)
    return _document(changed)


_RENAMED: Final = {"json": "payload", "metadata": "headers", "max_retries": "max_attempts"}


def _settings(body: ScheduleOptions) -> dict[str, Any]:
    """The given options, with the engine's names."""
    found: dict[str, Any] = {}
    for name in ScheduleOptions.__struct_fields__:
        value = getattr(body, name)
        if value is UNSET:
            continue
        if name == "metadata":
            check_headers(value, name)
        if name in ("key", "group"):
            optional_text(name, value)
        if name == "max_retries" and value is not None:
            value += 1
        found[_RENAMED.get(name, name)] = value
    return found


def _document(found: schedule.Schedule) -> Schedule:
    given = {
        name: getattr(found, name)
        for name in Schedule.__struct_fields__
        if hasattr(found, name) and name != "last_message_id"
    }
    id = found.last_message_id
    return Schedule(
        topic=found.queue,
        json=raw_json(found.payload),
        metadata=raw_json(found.headers),
        max_retries=None if found.max_attempts is None else found.max_attempts - 1,
        last_message_id=None if id is None else str(id),
        **given,
    )
