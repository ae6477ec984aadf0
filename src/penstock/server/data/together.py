"""Single enqueues, claims and acks of many callers, gathered into batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import psycopg

from penstock.command import Command
from penstock.errors import (
    DatabaseUnavailableError,
    LeaseLostError,
    PenstockError,
    QueueNotFoundError,
)
from penstock.message import NewMessage, OnConflict, Unique
from penstock.operations import ack, ack_many, enqueue_many, snooze_many
from penstock.operations.enqueueing import enqueue_texts
from penstock.payload import JsonText
from penstock.server.data import documents as d
from penstock.server.data.rendering import claim_documents
from penstock.server.database import Database
from penstock.server.gathering import Gatherer

MAX_CLAIM = 1000


class Kind(NamedTuple):
    """Messages that one statement can enqueue."""

    topic: str
    on_conflict: OnConflict
    unique: Unique
    # Nothing but small JSON texts. Among others they would lose the engine's short way.
    plain: bool


class Want(NamedTuple):
    """Claims that one statement can serve."""

    topic: str
    lease_seconds: int | None
    worker: str


class Caller(Protocol):
    """Whoever waits for an answer."""

    @property
    def is_gone(self) -> bool: ...


class Claim(NamedTuple):
    """How many messages a caller wants."""

    wanted: int
    caller: Caller


class Together:
    """What one server process gathers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.enqueues: Gatherer[Kind, NewMessage | JsonText, int] = Gatherer(self._enqueue)
        self.claims: Gatherer[Want, Claim, list[d.Message]] = Gatherer(
            self._claim, weight=lambda claim: claim.wanted, most=MAX_CLAIM
        )
        self._giving_back: set[asyncio.Task[None]] = set()
        self.acks: Gatherer[None, tuple[int, int], None] = Gatherer(self._ack)

    async def _enqueue(
        self, kind: Kind, messages: Sequence[NewMessage | JsonText]
    ) -> Sequence[int | Exception]:
        try:
            return await self._database.run(_command(kind, messages))
        except (DatabaseUnavailableError, QueueNotFoundError):  # of all of them
            raise
        except (PenstockError, psycopg.Error) as error:
            if len(messages) == 1:
                return [error]
        # All or none: so none. Each alone, to find out whose fault it was.
        answers: list[int | Exception] = []
        for message in messages:
            try:
                [id] = await self._database.run(_command(kind, [message]))
                answers.append(id)
            except DatabaseUnavailableError:
                raise
            except (PenstockError, psycopg.Error) as error:
                answers.append(error)
        return answers

    def give_back(self, messages: Iterable[d.Message]) -> None:
        """Put messages that reached nobody back into their queue, in the background."""
        task = asyncio.create_task(give_back(self._database, messages))
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)

    async def close(self) -> None:
        """Wait until everything is given back."""
        await asyncio.gather(*self._giving_back)

    async def _claim(self, want: Want, claims: Sequence[Claim]) -> Sequence[list[d.Message]]:
        counts = [0 if claim.caller.is_gone else claim.wanted for claim in claims]
        if not any(counts):
            return [[] for _ in claims]
        command = claim_documents(want.topic, sum(counts), want.lease_seconds, want.worker)
        found = await self._database.run(command)
        shares = []
        for count in counts:  # in the order in which they came
            shares.append(found[:count])
            found = found[count:]
        return shares

    async def _ack(self, _: None, leases: Sequence[tuple[int, int]]) -> Sequence[Exception | None]:
        if len({id for id, _ in leases}) < len(leases):
            # Two proofs for one message: which of them was right, only one by one can tell.
            return [await self._ack_one(lease) for lease in leases]
        if len(leases) == 1:
            await self._database.run(ack(leases[0]))
            return [None]
        settled = await self._database.run(ack_many(leases))
        return [None if id in settled else _lost(id) for id, _ in leases]

    async def _ack_one(self, lease: tuple[int, int]) -> Exception | None:
        try:
            await self._database.run(ack(lease))
        except LeaseLostError as error:
            return error
        return None


async def give_back(database: Database, messages: Iterable[d.Message]) -> None:
    """Back to the queue, with no attempt counted: nobody saw them."""
    leases = [(int(m.id), int(str(m.lease_token))) for m in messages]
    if leases:
        with suppress(PenstockError, psycopg.Error):
            await database.run(snooze_many(leases))


def _command(kind: Kind, messages: Sequence[NewMessage | JsonText]) -> Command[list[int]]:
    if kind.plain:
        return enqueue_texts(kind.topic, [str(message) for message in messages])
    return enqueue_many(kind.topic, messages, on_conflict=kind.on_conflict, unique=kind.unique)


def _lost(id: int) -> LeaseLostError:
    return LeaseLostError(
        f"the lease on message {id} is lost: it ran out, or the message was settled or cancelled",
        hint="Nothing was changed. Stop work on this message; extend leases in time, "
        "or dequeue with a longer visibility_timeout_seconds.",
        id=id,
    )
