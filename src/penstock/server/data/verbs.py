"""`POST /api/verbs`: what `penstock.http` speaks. Part of Penstock, and not a promise to others.

Commands of the client by the names of their verbs, all in one transaction. The statements are the
server's own; only arguments come from outside, each checked for its type.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from penstock import insights
from penstock.access import Scope
from penstock.command import Command, Rows
from penstock.connections_async import AnyConnection
from penstock.operations import snooze_many
from penstock.server.data.leases import require_queues
from penstock.server.idempotency import once
from penstock.server.problems import HttpError
from penstock.server.routing import Call, Endpoints
from penstock.verbs import PROTOCOL, Verb, ids_of, pack, unpack_arguments, verbs

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


@endpoint("POST", "/api/verbs", scope="any", body=VerbCalls, answers={200: Answers}, hidden=True)
async def run_verbs(call: Call) -> Any:
    """Run verbs, all in one transaction."""
    _check_protocol(call)
    calls: list[VerbCall] = call.body.calls
    if not 1 <= len(calls) <= MAX_CALLS:
        raise HttpError(422, "InvalidValueError", "calls are too few or too many",
                        field="calls", allowed=f"1 to {MAX_CALLS}")  # fmt: skip
    prepared = [await _prepare(call, each) for each in calls]

    async def work(connection: AnyConnection | None) -> Answers:
        return Answers([await _run(call, *each, connection) for each in prepared])

    if len(prepared) == 1 and prepared[0][0].scope != "operate":
        return await once(call, 200, work)
    if call.header("idempotency-key") is not None:
        return await once(call, 200, work)
    async with call.context.database.transaction() as connection:
        return await work(connection)


def _check_protocol(call: Call) -> None:
    spoken = call.header("penstock-protocol")
    if spoken != PROTOCOL:
        raise HttpError(
            400,
            "OtherProtocol",
            f"the client speaks protocol {spoken!r:.50}, the server {PROTOCOL!r}",
            hint="Use the same version of Penstock on both sides.",
        )


async def _prepare(call: Call, each: VerbCall) -> tuple[Verb, Command[Rows]]:
    verb = verbs().get(each.verb)
    if verb is None:
        raise HttpError(404, "UnknownVerb", f"there is no verb {each.verb!r:.100}")
    arguments = unpack_arguments(verb, each.arguments)
    if verb.scope is not None:
        call.principal.require(verb.scope)
        await _require(call, verb, verb.scope, arguments)
    return verb, Command(verb.sql, arguments, lambda rows: rows)


async def _require(call: Call, verb: Verb, scope: Scope, arguments: dict[str, Any]) -> None:
    """A key for some queues has to show which queue a call is about."""
    queue = arguments[verb.queue] if verb.queue else None
    if isinstance(queue, str):
        call.require(scope, queue)
        return
    if call.principal.unlimited(scope):
        return
    if scope == "consume":
        await require_queues(call, ids_of(verb, arguments))
    elif verb.name in ("message", "cancel", "replay"):
        found = await call.run(insights.message(arguments["id"] or 0))
        call.require(scope, found.queue)
        if isinstance(arguments.get("queue"), str):
            call.require(scope, arguments["queue"])
    else:
        raise HttpError(
            403,
            "PermissionDeniedError",
            f"{verb.name} is for keys that have {scope!r} on all queues",
            hint="Name a queue, or use a key for all of them.",
        )


async def _run(
    call: Call, verb: Verb, command: Command[Rows], connection: AnyConnection | None
) -> Answer:
    database = call.context.database
    rows = await database.run(command, connection)
    # With a key, the caller may come again for the answer.
    is_lost = call.is_gone and call.header("idempotency-key") is None
    if verb.name == "claim" and rows and is_lost:
        leases = [(row[0], row[1]) for row in rows]
        await database.run(snooze_many(leases), connection)
    if verb.scope == "operate" and connection is not None:
        target = command.params.get(verb.queue or verb.ids or "name")
        note = call.context.activity(
            call.principal, call.exchange, verb.name, None if target is None else str(target)
        )
        await database.run(note, connection)
    return Answer([[pack(value) for value in row] for row in rows])
