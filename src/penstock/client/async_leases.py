"""Claims and acks of a client. The sync module is generated from the async one.

Small claims and acks of concurrent tasks share a statement. In the sync client, each call runs its
own statement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from penstock.client.batching import Batcher
from penstock.commands import arguments as check
from penstock.commands import write
from penstock.commands.command import Command
from penstock.commands.write.workers import ack_pairs
from penstock.errors import LeaseLostError
from penstock.model.message import Duration, Lease, LeaseLike

ASYNC: Final = True
_Pair: TypeAlias = tuple[int, int]

if ASYNC:
    _Kind: TypeAlias = tuple[str, Duration | None, str]
    # A call with this many messages gets its own statement.
    ENOUGH: Final = 32
    # The largest number of messages in a shared statement.
    MAX_MESSAGES: Final = 1000


class AsyncLeases:
    """Claims and acks. `share` lets calls on the client's own connections share a
    transaction.
    """

    def __init__(self, run: Callable[[Command[Any], Any], Awaitable[Any]], *, share: bool) -> None:
        self._run = run
        if ASYNC:
            self._share = share
            self._acks: Batcher[None, list[_Pair], set[int]] = Batcher(
                self._ack_batch, weight=len, max_weight=MAX_MESSAGES, touches=_ids
            )
            self._claims: Batcher[_Kind, int, list[Lease]] = Batcher(
                self._claim_batch, weight=int, max_weight=MAX_MESSAGES, undo=self._give_back
            )

    async def claim(
        self, queue: str, count: int, lease_seconds: Duration | None, worker: str, connection: Any
    ) -> list[Lease]:
        command = write.claim(queue, count, lease_seconds=lease_seconds, worker=worker)
        if ASYNC and self._shares(connection) and 0 < count < ENOUGH:
            return await self._claims.submit((queue, lease_seconds, worker), count)
        leases: list[Lease] = await self._run(command, connection)
        return leases

    async def ack(self, lease: LeaseLike, connection: Any) -> None:
        pair = check.lease(lease)
        if ASYNC and self._shares(connection) and await self._acks.submit(None, [pair]):
            return
        # A lost lease gets here too. The error of this statement names the reason.
        await self._run(write.ack(pair), connection)

    async def ack_many(self, leases: Sequence[LeaseLike], connection: Any) -> set[int]:
        pairs = check.leases(leases)
        if ASYNC and self._shares(connection) and len(pairs) < ENOUGH:
            return await self._acks.submit(None, pairs)
        settled: set[int] = await self._run(ack_pairs(pairs), connection)
        return settled

    if ASYNC:

        def _shares(self, connection: Any) -> bool:
            return self._share and connection is check.UNSET

        async def _ack_batch(self, _: None, calls: Sequence[list[_Pair]]) -> list[set[int]]:
            pairs = [pair for call in calls for pair in call]
            if len(pairs) == 1:
                try:
                    await self._run(write.ack(pairs[0]), check.UNSET)
                except LeaseLostError:
                    return [set()]
                return [{pairs[0][0]}]
            settled = await self._run(ack_pairs(pairs), check.UNSET)
            return [_ids(call) & settled for call in calls]

        async def _claim_batch(self, kind: _Kind, counts: Sequence[int]) -> list[list[Lease]]:
            queue, lease_seconds, worker = kind
            command = write.claim(queue, sum(counts), lease_seconds=lease_seconds, worker=worker)
            leases = iter(await self._run(command, check.UNSET))
            return [list(islice(leases, count)) for count in counts]

        async def _give_back(self, answers: Sequence[list[Lease]]) -> None:
            """Return leases of cancelled calls. The attempts do not count."""
            if leases := [lease for answer in answers for lease in answer]:
                await self._run(write.snooze_many(leases, 0), check.UNSET)


if ASYNC:

    def _ids(call: Sequence[_Pair]) -> set[int]:
        return {id for id, _ in call}
