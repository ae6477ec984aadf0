"""Single enqueues, claims and acks of many callers, gathered into batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from penstock.command import Command
from penstock.errors import (
    DatabaseUnavailableError,
    LeaseLostError,
    PenstockError,
    QueueNotFoundError,
)
from penstock.message import NewMessage, OnConflict, Unique
from penstock.operations import ack, ack_many, enqueue_many
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


class Together:
    """What one server process gathers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.enqueues: Gatherer[Kind, NewMessage | JsonText, int] = Gatherer(self._enqueue)
        self.claims: Gatherer[Want, int, list[d.Message]] = Gatherer(
            self._claim, weight=lambda count: count, most=MAX_CLAIM
        )
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

    async def _claim(self, want: Want, counts: Sequence[int]) -> Sequence[list[d.Message]]:
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
