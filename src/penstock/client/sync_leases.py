# Generated from client/async_leases.py by tools/generate_client.py. Do not edit.
"""Claims and acks of a client. The sync module is generated from the async one.

Small claims and acks of concurrent tasks share a statement. In the sync client, each call runs its
own statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from penstock.commands import arguments as check
from penstock.commands import write
from penstock.commands.command import Command
from penstock.commands.write.workers import ack_pairs
from penstock.model.message import Duration, Lease, LeaseLike

_Pair: TypeAlias = tuple[int, int]


class Leases:
    """Claims and acks. `share` lets calls on the client's own connections share a
    transaction.
    """

    def __init__(self, run: Callable[[Command[Any], Any], Any], *, share: bool) -> None:
        self._run = run

    def claim(
        self, queue: str, count: int, lease_seconds: Duration | None, worker: str, connection: Any
    ) -> list[Lease]:
        command = write.claim(queue, count, lease_seconds=lease_seconds, worker=worker)
        leases: list[Lease] = self._run(command, connection)
        return leases

    def ack(self, lease: LeaseLike, connection: Any) -> None:
        pair = check.lease(lease)
        # A lost lease gets here too. The error of this statement names the reason.
        self._run(write.ack(pair), connection)

    def ack_many(self, leases: Sequence[LeaseLike], connection: Any) -> set[int]:
        pairs = check.leases(leases)
        settled: set[int] = self._run(ack_pairs(pairs), connection)
        return settled
