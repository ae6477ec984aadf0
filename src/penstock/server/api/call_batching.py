"""Runs single enqueues, claims and acks of many callers in one statement each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, Protocol

import psycopg

from penstock.client.batching import Batcher
from penstock.commands.command import Command
from penstock.commands.payload import JsonText
from penstock.commands.write import ack, ack_many, enqueue_many, snooze_many
from penstock.commands.write.enqueueing import enqueue_texts
from penstock.errors import (
    DatabaseUnavailableError,
    LeaseLostError,
    PenstockError,
    QueueNotFoundError,
)
from penstock.model.message import NewMessage, OnConflict, Unique
from penstock.server.api import documents as d
from penstock.server.api.rendering import claim_documents, content_bytes
from penstock.server.database import Database

MAX_CLAIM = 1000


class Kind(NamedTuple):
    """Messages that one statement can enqueue."""

    topic: str
    on_conflict: OnConflict
    unique: Unique
    # Only small JSON texts. Mixed with others they would not take the engine's short path.
    plain: bool


class Want(NamedTuple):
    """Claims that one statement can serve."""

    topic: str
    lease_seconds: int | None
    worker: str


class Caller(Protocol):
    """A caller that waits for a response."""

    @property
    def is_gone(self) -> bool: ...


class Claim(NamedTuple):
    """The number of messages that a caller wants."""

    wanted: int
    caller: Caller


class CallBatching:
    """Runs the calls of many callers together, for one server process."""

    def __init__(self, database: Database, answer_bytes: int) -> None:
        self._database = database
        self._answer_bytes = answer_bytes
        self.enqueues: Batcher[Kind, NewMessage | JsonText, int] = Batcher(
            self._enqueue, gather=True
        )
        self.claims: Batcher[Want, Claim, list[d.Message]] = Batcher(
            self._claim,
            weight=lambda claim: claim.wanted,
            max_weight=MAX_CLAIM,
            undo=self._undo,
            gather=True,
        )
        self.acks: Batcher[None, tuple[int, int], None] = Batcher(
            self._ack, touches=lambda lease: {lease[0]}, gather=True
        )
        self._giving_back: set[asyncio.Task[None]] = set()

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
        # All of them are refused together. Each is tried alone to find the wrong one.
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
        """Give undelivered messages back to their queue, in the background."""
        task = asyncio.create_task(give_back(self._database, messages))
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)

    async def close(self) -> None:
        """Wait until all messages are given back."""
        await asyncio.gather(*self._giving_back)

    async def _claim(self, want: Want, claims: Sequence[Claim]) -> Sequence[list[d.Message]]:
        counts = [0 if claim.caller.is_gone else claim.wanted for claim in claims]
        shares: list[list[d.Message]] = [[] for _ in claims]
        # A caller that got nothing because the answers of others were large is served next.
        while waiting := [n for n, count in enumerate(counts) if count and not shares[n]]:
            asked = sum(counts[n] for n in waiting)
            found = await self._database.run(
                claim_documents(
                    want.topic, asked, want.lease_seconds, want.worker, self._answer_bytes
                )
            )
            is_all = len(found) == asked or sum(map(content_bytes, found)) < self._answer_bytes
            for n in waiting:  # in order of arrival
                shares[n] = found[: counts[n]]
                found = found[counts[n] :]
            if is_all:
                break
        return shares

    async def _ack(self, _: None, leases: Sequence[tuple[int, int]]) -> Sequence[Exception | None]:
        if len(leases) == 1:
            await self._database.run(ack(leases[0]))
            return [None]
        settled = await self._database.run(ack_many(leases))
        return [None if id in settled else _lost(id) for id, _ in leases]

    async def _undo(self, answers: Sequence[list[d.Message]]) -> None:
        await give_back(self._database, chain.from_iterable(answers))


async def give_back(database: Database, messages: Iterable[d.Message]) -> None:
    """Give them back without counting the attempt, because no caller has seen them."""
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
        f"the lease on message {id} is lost: it expired, or the message was settled or cancelled",
        hint="Nothing was changed. Stop work on this message. Extend leases in time, "
        "or dequeue with a longer visibility_timeout_seconds.",
        id=id,
    )
