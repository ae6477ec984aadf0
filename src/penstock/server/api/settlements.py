"""Settles many leases in one call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.commands import read, write
from penstock.db.async_connections import AnyConnection
from penstock.model.message import LiveState
from penstock.server import fields as f
from penstock.server.api.rendering import STATUS, status_of
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("messages")
Action = Literal["ack", "nack", "reject", "snooze", "extend"]


class Settlement(Struct, forbid_unknown_fields=True, kw_only=True):
    """The action for one lease."""

    id: f.Id
    lease_token: f.LeaseToken
    action: Action = "ack"
    error: f.ErrorText | None = None
    delay_seconds: f.Delay | None = None
    visibility_timeout_seconds: f.LeaseSeconds | None = None


class Settlements(Struct, forbid_unknown_fields=True):
    """Up to 1,000 leases."""

    messages: Annotated[list[Settlement], Meta(min_length=1, max_length=1000)]


Reason = Literal["lease_lost", "finished", "not_found", "repeated"]


class SettleResult(Struct, kw_only=True):
    """The outcome for one lease. If it was not settled, nothing was changed, and `reason` says why.

    `lease_lost`: the message waits again, or is leased under another token. `finished`: it was
    settled before, cancelled, or has expired. `not_found`: there is no such message, or its topic
    keeps no history. `repeated`: the call names the message more than once, and the first counts.
    """

    id: str
    settled: bool
    reason: Reason | UnsetType = UNSET
    status: f.Status | UnsetType = UNSET
    state: str | UnsetType = UNSET
    visibility_timeout: datetime | UnsetType = UNSET


class SettledMany(Struct):
    """The outcomes, in the order of the request."""

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
    ids = [int(each.id) for each in wanted]
    first = dict(reversed([(id, number) for number, id in enumerate(ids)]))
    refused = await _unknown(call, ids)
    by_action: dict[tuple[Action, int | None], list[int]] = {}
    for number, each in enumerate(wanted):
        if ids[number] in refused or first[ids[number]] != number:
            continue
        key = (each.action, each.visibility_timeout_seconds if each.action == "extend" else None)
        by_action.setdefault(key, []).append(number)
    if by_action.keys() == {("ack", None)} and not refused and len(first) == len(ids):
        return await _ack_all(call, wanted)
    results: dict[int, SettleResult] = {
        number: SettleResult(id=each.id, settled=False) for number, each in enumerate(wanted)
    }
    async with call.transaction() as connection:
        for (action, seconds), numbers in by_action.items():
            chosen = [wanted[number] for number in numbers]
            found = await _settle(call, connection, action, seconds, chosen)
            results |= {number: found[ids[number]] for number in numbers if ids[number] in found}
    return await _counted(call, [results[number] for number in range(len(wanted))])


async def _ack_all(call: Call, wanted: Sequence[Settlement]) -> SettledMany:
    """The usual case, in one statement without a separate transaction."""
    leases = [(int(each.id), int(each.lease_token)) for each in wanted]
    done = await call.run(write.ack_many(leases))
    return await _counted(
        call,
        [
            _settled(id, "done") if id in done else SettleResult(id=str(id), settled=False)
            for id, _ in leases
        ],
    )


async def _counted(call: Call, results: list[SettleResult]) -> SettledMany:
    lost = [int(each.id) for each in results if not each.settled]
    if lost:
        states = await call.run(read.states_of(lost))
        named: set[str] = set()
        for each in results:
            if not each.settled:
                each.reason = _reason(call, each.id in named, states.get(int(each.id)))
            named.add(each.id)
    settled = sum(each.settled for each in results)
    call.context.count_settled(settled)
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


def _reason(call: Call, is_repeated: bool, known: tuple[str, str] | None) -> Reason:
    if is_repeated:
        return "repeated"
    if known is None or not call.principal.may("consume", known[0]):
        return "not_found"
    return "lease_lost" if known[1] in get_args(LiveState) else "finished"


async def _unknown(call: Call, ids: Sequence[int]) -> set[int]:
    """The messages that are not live. The key must cover the topics of the live ones."""
    if call.principal.unlimited("consume"):
        return set()
    found = await call.run(read.queues_of(ids))
    for id, queue in found.items():
        call.require_of(f"message {id}", "consume", queue)
    return set(ids) - found.keys()


def _settled(id: int, state: Any) -> SettleResult:
    return SettleResult(id=str(id), settled=True, status=STATUS[state], state=state)
