"""`POST /api/verbs`: the protocol of `penstock.http`. It is private and may change.

A request has commands of the client by name, which run in one transaction. The statements are the
server's own. Only arguments come from the caller, and the type of each is checked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, Final

from msgspec import Struct

from penstock.commands import read
from penstock.commands.command import Command, Rows
from penstock.commands.http_verbs import PROTOCOL, Verb, pack, unpack_arguments, verbs
from penstock.commands.read.paging import MAX_LIMIT, page_size
from penstock.commands.write import snooze_many
from penstock.commands.write.leases import within
from penstock.db.async_connections import AnyConnection
from penstock.server.api.header_rules import check_arguments
from penstock.server.api.leases import require_queues
from penstock.server.api.message_sets import operated_queue
from penstock.server.api.schedules import covered_schedule, readable_queues
from penstock.server.auth.permissions import need_of_verb
from penstock.server.auth.worker_access import only_queue, operated_worker
from penstock.server.json_texts import check_json_text
from penstock.server.transport.idempotency import once
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("verbs")
MAX_CALLS: Final = 1000


class VerbCall(Struct, forbid_unknown_fields=True):
    verb: str
    arguments: dict[str, Any]


class VerbCalls(Struct, forbid_unknown_fields=True):
    calls: list[VerbCall]


class Answer(Struct):
    rows: list[list[Any]]


class Answers(Struct):
    answers: list[Answer]


@endpoint(
    "POST",
    "/api/verbs",
    body=VerbCalls,
    answers={200: Answers},
    hidden=True,
    keeps_answer=True,
)
async def run_verbs(call: Call) -> Any:
    """Run verbs, all in one transaction."""
    _check_protocol(call)
    calls: list[VerbCall] = call.body.calls
    if not 1 <= len(calls) <= MAX_CALLS:
        raise HttpError(422, "InvalidValueError", "the request has too few or too many calls",
                        field="calls", allowed=f"1 to {MAX_CALLS}")  # fmt: skip
    prepared = [_prepare(call, each) for each in calls]

    async def work(connection: AnyConnection | None) -> Answers:
        return Answers([await _run(call, *each, connection) for each in prepared])

    if len(prepared) == 1 and not is_act(prepared[0][0]):
        return await once(call, 200, work)
    if call.header("idempotency-key") is not None:
        return await once(call, 200, work)
    async with call.context.database.transaction() as connection:
        return await work(connection)


def is_act(verb: Verb) -> bool:
    """Whether it is an action of an operator, which is recorded."""
    return need_of_verb(verb.name).scope == "operate"


def _check_protocol(call: Call) -> None:
    spoken = call.header("penstock-protocol")
    if spoken != PROTOCOL:
        raise HttpError(
            400,
            "OtherProtocol",
            f"the client speaks protocol {spoken!r:.50}, the server {PROTOCOL!r}",
            hint="Use the same version of Penstock on both sides.",
        )


def _prepare(call: Call, each: VerbCall) -> tuple[Verb, Command[Rows]]:
    """The statement with its arguments, if the key has the scope and covers the queues in them."""
    verb = verbs().get(each.verb)
    if verb is None:
        raise HttpError(404, "UnknownVerb", f"there is no verb {each.verb!r:.100}")
    arguments = unpack_arguments(verb, each.arguments)
    _check_sizes(call, verb, arguments)
    check_arguments(arguments)
    need = need_of_verb(verb.name)
    need.admit(call.principal, {})
    if need.scope is not None and need.target in ("body", "own"):
        queue = arguments.get(need.name)
        if isinstance(queue, str):
            call.require(need.scope, queue)
        elif need.target == "body":
            call.principal.require_all(need.scope)
    command: Command[Rows] = Command(verb.sql, arguments, lambda rows: rows)
    if verb.name == "claim":
        command = within(command, call.context.settings.answer_bytes)
    elif verb.name == "schedule_page":
        command = _within_answer(command, call.context.settings.answer_bytes)
    elif verb.name == "schedules" and arguments["name"] is None:
        command = _all_schedules(call.context.settings.answer_bytes)
    return verb, command


def _within_answer(schedules: Command[Rows], answer_bytes: int) -> Command[Rows]:
    """The same page of schedules, limited in size. The client reads the next one."""
    asked = schedules.params
    limit = MAX_LIMIT if asked["limit"] is None else page_size(asked["limit"])
    max_bytes = answer_bytes if asked["max_bytes"] is None else asked["max_bytes"]
    bounds = {"limit": limit, "max_bytes": min(max_bytes, answer_bytes)}
    return replace(schedules, params={**asked, **bounds})


def _all_schedules(answer_bytes: int) -> Command[Rows]:
    """The rows of the verb `schedules`, for older clients. They read no second page."""
    page = read.schedule_page(limit=MAX_LIMIT, max_bytes=answer_bytes, as_text=True)

    def decode(rows: Rows) -> Rows:
        if page.decode(rows)[1]:
            raise HttpError(
                400,
                "OtherProtocol",
                "the schedules do not fit into one answer, and the client reads no pages",
                hint="Use the same version of Penstock on both sides.",
            )
        return [row[:-2] for row in rows]

    return Command(page.sql, page.params, decode)


def _check_sizes(call: Call, verb: Verb, arguments: Mapping[str, Any]) -> None:
    """Refuse JSON that would be larger in the database than a body may be."""
    for name, type_ in verb.types.items():
        if type_ in ("jsonb", "jsonb[]") and arguments[name] is not None:
            texts = arguments[name] if isinstance(arguments[name], list) else [arguments[name]]
            for text in texts:
                if text is not None:
                    check_json_text(text, call.context.settings.max_body_bytes, name)


async def _run(
    call: Call, verb: Verb, command: Command[Rows], connection: AnyConnection | None
) -> Answer:
    """Run a verb, if the key covers the queue of its message or schedule."""
    database = call.context.database
    queue = await _checked_queue(call, verb, command.params, connection)
    if verb.name == "claim":
        call.context.answers.check()
    elif verb.name in _LISTS_SCHEDULES and "queues" in command.params:
        command = await _of_readable_queues(call, command, connection)
    rows = await database.run(command, connection)
    # With an Idempotency-Key, the caller may repeat the call.
    is_lost = call.is_gone and call.header("idempotency-key") is None
    if verb.name == "claim" and rows and is_lost:
        leases = [(row[0], row[1]) for row in rows]
        await database.run(snooze_many(leases), connection)
    if verb.name in _SETS_SCHEDULE:
        # The key must cover the new queue of the schedule. Otherwise everything is rolled back.
        await covered_schedule(call, "operate", command.params["name"], connection)
    if verb.name in _QUEUE_COLUMN:
        rows = [row for row in rows if call.principal.may("read", row[_QUEUE_COLUMN[verb.name]])]
    if is_act(verb) and connection is not None:
        target = command.params.get(need_of_verb(verb.name).name)
        target = None if target is None else str(target)[:200]
        note = call.context.activity(call.principal, call.exchange, verb.name, target, queue=queue)
        await database.run(note, connection)
    return Answer([[pack(value) for value in row] for row in rows])


_LISTS_SCHEDULES: Final = ("schedules", "schedule_page")
_SETS_SCHEDULE: Final = ("create_schedule", "set_schedule")
# Verbs whose rows are limited to the caller's queues, with the column of the queue.
_QUEUE_COLUMN: Final = {"queues": 0, "workers": 1, "schedules": 1}


async def _of_readable_queues(
    call: Call, schedules: Command[Rows], connection: AnyConnection | None
) -> Command[Rows]:
    """The same page, limited to the queues that the key may read."""
    readable = await readable_queues(call, connection)
    if readable is None:
        return schedules
    asked = schedules.params["queues"]
    queues = readable if asked is None else [name for name in readable if name in set(asked)]
    return replace(schedules, params={**schedules.params, "queues": queues})


async def _checked_queue(
    call: Call, verb: Verb, arguments: Mapping[str, Any], connection: AnyConnection | None
) -> str | None:
    """The queue of the message or schedule of a call, which the key must cover."""
    need = need_of_verb(verb.name)
    if need.target == "lease":
        await require_queues(call, _ids(arguments[need.name]), connection)
    elif need.target == "message" and need.name == "ids":
        return await _checked_messages(call, arguments, connection)
    elif need.target == "message" and need.scope is not None:
        found = await call.context.database.run(read.message(arguments[need.name] or 0), connection)
        call.require_of(f"message {found.id}", need.scope, found.queue)
        if isinstance(arguments.get("queue"), str):
            call.require(need.scope, arguments["queue"])
        return found.queue
    elif need.target == "worker":

        def run(command: Command[Any]) -> Awaitable[Any]:
            return call.context.database.run(command, connection)

        return only_queue(await operated_worker(call.principal, run, arguments[need.name] or ""))
    elif need.target == "schedule":
        name = arguments[need.name] or ""
        return (await covered_schedule(call, "operate", name, connection)).queue
    return None


async def _checked_messages(
    call: Call, arguments: Mapping[str, Any], connection: AnyConnection | None
) -> str | None:
    """The key has to cover the queues of all messages, and the queue that they are moved into."""
    queue = await operated_queue(call, _ids(arguments["ids"] or []), connection)
    if isinstance(arguments.get("queue"), str):
        call.require("operate", arguments["queue"])
    return queue


def _ids(found: Any) -> list[int]:
    """The ids of the messages of a call."""
    ids = found if isinstance(found, list) else [found]
    return [id for id in ids if id is not None]
