"""The client's verbs for a lease, besides ack. The sync module is generated from the async one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from penstock.client.async_command_runner import AsyncCommandRunner
from penstock.client.telemetry import settling, settling_many
from penstock.commands import write
from penstock.commands.arguments import UNSET
from penstock.commands.write.leases import Note
from penstock.model.message import Duration, LeaseLike, SettledState


class AsyncSettlingVerbs(AsyncCommandRunner):
    """Records failed attempts, gives messages back and extends leases. A part of the client."""

    async def nack(
        self,
        lease: LeaseLike,
        error: Note = None,
        delay: Duration | None = None,
        *,
        connection: Any = UNSET,
    ) -> SettledState:
        """Record that the attempt failed, and deliver the message again later.

        After the last attempt the message becomes a dead letter.

        Args:
            lease: The lease, or its `(id, token)`.
            error: The error, as text or as an exception. The message keeps it.
            delay: The time until the next attempt. The default is the backoff of the queue.
            connection: A connection or session of the caller, in whose transaction to settle.

        Returns:
            The new state of the message.

        Raises:
            LeaseLostError: The lease expired, or the message was settled. Nothing was changed.
        """
        with settling("nack", lease):
            return await self.run(write.nack(lease, error, delay), connection)

    async def nack_many(
        self,
        leases: Sequence[LeaseLike],
        error: Note | Sequence[Note] = None,
        delay: Duration | Sequence[Duration | None] | None = None,
        *,
        connection: Any = UNSET,
    ) -> dict[int, SettledState]:
        """Record that many attempts failed.

        Args:
            leases: The leases, or their `(id, token)`s.
            error: One error for all, or a list with one for each lease.
            delay: One delay for all, or a list with one for each lease.
            connection: A connection or session of the caller, in whose transaction to settle.

        Returns:
            The new state by id. The ids of lost leases are missing.
        """
        with settling_many("nack", leases) as settled:
            states = await self.run(write.nack_many(leases, error, delay), connection)
            settled.count = len(states)
        return states

    async def reject(
        self, lease: LeaseLike, reason: Note = None, *, connection: Any = UNSET
    ) -> SettledState:
        """Make the message a dead letter now, because another attempt would not help.

        Args:
            lease: The lease, or its `(id, token)`.
            reason: The reason, as text or as an exception. The message keeps it.
            connection: A connection or session of the caller, in whose transaction to settle.

        Returns:
            The new state of the message: "dead".

        Raises:
            LeaseLostError: The lease expired, or the message was settled. Nothing was changed.
        """
        with settling("reject", lease):
            return await self.run(write.reject(lease, reason), connection)

    async def reject_many(
        self,
        leases: Sequence[LeaseLike],
        reason: Note | Sequence[Note] = None,
        *,
        connection: Any = UNSET,
    ) -> dict[int, SettledState]:
        """Make many messages dead letters now.

        Use it if another attempt would not help.

        Args:
            leases: The leases, or their `(id, token)`s.
            reason: One reason for all, or a list with one for each lease.
            connection: A connection or session of the caller, in whose transaction to settle.

        Returns:
            The new state by id. The ids of lost leases are missing.
        """
        with settling_many("reject", leases) as settled:
            states = await self.run(write.reject_many(leases, reason), connection)
            settled.count = len(states)
        return states

    async def snooze(
        self, lease: LeaseLike, delay: Duration = 0, *, connection: Any = UNSET
    ) -> SettledState:
        """Deliver the message again later. The attempt does not count.

        Args:
            lease: The lease, or its `(id, token)`.
            delay: The time until the message can be claimed again.
            connection: A connection or session of the caller, in whose transaction to settle.

        Returns:
            The new state of the message.

        Raises:
            LeaseLostError: The lease expired, or the message was settled. Nothing was changed.
        """
        with settling("snooze", lease):
            return await self.run(write.snooze(lease, delay), connection)

    async def snooze_many(
        self,
        leases: Sequence[LeaseLike],
        delay: Duration | Sequence[Duration] = 0,
        *,
        connection: Any = UNSET,
    ) -> dict[int, SettledState]:
        """Deliver many messages again later. The attempts do not count.

        Args:
            leases: The leases, or their `(id, token)`s.
            delay: One delay for all, or a list with one for each lease.
            connection: A connection or session of the caller, in whose transaction to settle.

        Returns:
            The new state by id. The ids of lost leases are missing.
        """
        with settling_many("snooze", leases) as settled:
            states = await self.run(write.snooze_many(leases, delay), connection)
            settled.count = len(states)
        return states

    async def extend(
        self,
        lease: LeaseLike,
        seconds: Duration | None = None,
        *,
        connection: Any = UNSET,
    ) -> datetime:
        """Extend a lease, counted from now.

        Args:
            lease: The lease, or its `(id, token)`.
            seconds: The new duration. The default is `lease_seconds` of the queue.
            connection: A connection or session of the caller, in whose transaction to extend.

        Returns:
            The new `lease_until`.

        Raises:
            LeaseLostError: The lease expired, or the message was settled. Stop the work.
        """
        return await self.run(write.extend(lease, seconds), connection)

    async def extend_many(
        self,
        leases: Sequence[LeaseLike],
        seconds: Duration | None = None,
        *,
        connection: Any = UNSET,
    ) -> dict[int, datetime]:
        """Extend many leases, counted from now.

        Args:
            leases: The leases, or their `(id, token)`s.
            seconds: The new duration. The default is `lease_seconds` of the queue.
            connection: A connection or session of the caller, in whose transaction to extend.

        Returns:
            The new `lease_until` by id. The ids of lost leases are missing.
        """
        return await self.run(write.extend_many(leases, seconds), connection)
