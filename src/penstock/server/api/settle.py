"""Many leases settled in one call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.commands import read, write
from penstock.db.async_connections import AnyConnection
from penstock.server import fields as f
from penstock.server.api.leases import require_queues
from penstock.server.api.rendering import STATUS, status_of
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("messages")
Action = Literal["ack", "nack", "reject", "snooze", "extend"]


class Settlement(Struct, forbid_unknown_fields=True, kw_only=True):
    """What to do with one lease."""

    id: f.Id
    lease_token: f.LeaseToken
    action: Action = "ack"
    error: f.ErrorText | None = None
    delay_seconds: f.Delay | None = None
    visibility_timeout_seconds: f.LeaseSeconds | None = None


class Settlements(Struct, forbid_unknown_fields=True):
    """Up to 1,000 leases."""

    messages: Annotated[list[Settlement], Meta(min_length=1, max_length=1000)]


class SettleResult(Struct, kw_only=True):
    """What became of one: not settled means that its lease was lost, and nothing was changed."""

    id: str
    settled: bool
    status: f.Status | UnsetType = UNSET
    state: str | UnsetType = UNSET
    visibility_timeout: datetime | UnsetType = UNSET


class SettledMany(Struct):
    """One for each, in the order given."""

    results: list[SettleResult]


@endpoint(
    "POST",
    "/api/messages/settle",
    body=Settlements,
    answers={200: SettledMany},
    problems=(409,),
)
async def settle_messages(call: Call) -> SettledMany:
    """Ack, nack, reject, snooze or extend up to 1,000 leases, together."""
    wanted: list[Settlement] = call.body.messages
    await require_queues(call, [int(each.id) for each in wanted])
    by_action: dict[tuple[Action, int | None], list[int]] = {}
    for number, each in enumerate(wanted):
        key = (each.action, each.visibility_timeout_seconds if each.action == "extend" else None)
        by_action.setdefault(key, []).append(number)
    if by_action.keys() == {("ack", None)}:
        return await _ack_all(call, wanted)
    results: dict[int, SettleResult] = {}
    async with call.context.database.transaction() as connection:
        for (action, seconds), numbers in by_action.items():
            chosen = [wanted[number] for number in numbers]
            found = await _settle(call, connection, action, seconds, chosen)
            results |= {
                number: found.get(
                    int(wanted[number].id), SettleResult(id=wanted[number].id, settled=False)
                )
                for number in numbers
            }
    return _counted(call, [results[number] for number in range(len(wanted))])


async def _ack_all(call: Call, wanted: Sequence[Settlement]) -> SettledMany:
    """What most calls are, in one statement, without a transaction around it."""
    leases = [(int(each.id), int(each.lease_token)) for each in wanted]
    done = await call.context.database.run(write.ack_many(leases))
    return _counted(
        call,
        [
            _settled(id, "done") if id in done else SettleResult(id=str(id), settled=False)
            for id, _ in leases
        ],
    )


def _counted(call: Call, results: list[SettleResult]) -> SettledMany:
    settled = sum(each.settled for each in results)
    call.context.metrics.moved("settled", settled)
    call.context.metrics.moved("lost", len(results) - settled)
    return SettledMany(results)


async def _settle(
    call: Call,
    connection: AnyConnection,
    action: Action,
    seconds: int | None,
    chosen: Sequence[Settlement],
) -> dict[int, SettleResult]:
    leases = [(int(each.id), int(each.lease_token)) for each in chosen]
    errors = [each.error for each in chosen]

    async def run(command: Any) -> Any:
        return await call.context.database.run(command, connection)

    if action == "ack":
        return {id: _settled(id, "done") for id in await run(write.ack_many(leases))}
    if action == "extend":
        extended = await run(write.extend_many(leases, seconds))
        return {
            id: SettleResult(
                id=str(id), settled=True, status="processing", visibility_timeout=until
            )
            for id, until in extended.items()
        }
    if action == "nack":
        delays = [each.delay_seconds for each in chosen]
        states = await run(write.nack_many(leases, errors, delays))
    elif action == "reject":
        states = await run(write.reject_many(leases, errors))
    else:
        states = await run(write.snooze_many(leases, [each.delay_seconds or 0 for each in chosen]))
    settled = {id: _settled(id, state) for id, state in states.items()}
    for id in [id for id, state in states.items() if state == "dead"]:
        settled[id].status = status_of(await run(read.message(id)))
    return settled


def _settled(id: int, state: Any) -> SettleResult:
    return SettleResult(id=str(id), settled=True, status=STATUS[state], state=state)
