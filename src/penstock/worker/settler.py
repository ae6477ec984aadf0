"""Settles the outcomes of handlers in batches, and retries until they are stored."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, TypeAlias

import psycopg

from penstock.commands import write
from penstock.commands.command import Command
from penstock.commands.write.results import (
    IDS_IN_NOTIFICATION,
    RESULTS_CHANNEL,
    Completion,
    complete_many,
)
from penstock.commands.write.workers import ack_pairs, notify
from penstock.db.reconnecting import ReconnectingConnection
from penstock.errors import (
    DatabaseReadOnlyError,
    DatabaseUnavailableError,
    PenstockError,
    QueueFullError,
)
from penstock.worker.delivery import Delivery
from penstock.worker.outcomes import Complete, Outcome, Reject, Retry, Snooze

logger = logging.getLogger("penstock.worker")

Verdict: TypeAlias = tuple[Delivery, Outcome | None]

BATCH: Final = 1000
# With so many unsettled messages more claims make no sense: the database is slow or unavailable.
BEHIND: Final = 2000
# The timeout of a statement, and the number of refusals after which its messages get smaller
# statements.
_TIMEOUT: Final = 10.0
_REFUSALS: Final = 3
# Verbs that may make a dead letter.
_MAY_BURY: Final = frozenset({"nack", "reject"})


class Settler:
    """One for each process. `settle` only collects; `run` sends as soon as there are outcomes."""

    def __init__(self, connection: ReconnectingConnection) -> None:
        self.settled_count = 0
        self.on_relief: list[Callable[[], None]] = []
        self.on_members: Callable[[], None] | None = None  # members of batches may have ended
        self._connection = connection
        self._noted: list[Verdict] = []
        self._sending: list[Verdict] = []
        self._something = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def settle(self, delivery: Delivery, outcome: Outcome | None) -> None:
        self._noted.append((delivery, outcome))
        if len(self._noted) == 1:
            self._idle.clear()
            self._something.set()

    @property
    def unsettled(self) -> int:
        return len(self._noted) + len(self._sending)

    @property
    def is_behind(self) -> bool:
        return self.unsettled >= BEHIND

    def held(self) -> list[Delivery]:
        """Messages whose outcome is not in the database yet. Their leases must be extended."""
        return [delivery for delivery, _ in [*self._sending, *self._noted]]

    async def settled(self) -> None:
        """Run until nothing is left to settle."""
        await self._idle.wait()

    async def run(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            while self._noted:
                self._sending, self._noted = self._noted[:BATCH], self._noted[BATCH:]
                await self._send(self._sending)
                sent, self._sending = self._sending, []
                for runner in {delivery._runner for delivery, _ in sent}:
                    runner.forget(delivery for delivery, _ in sent if delivery._runner is runner)
                    runner.on_settled()
                for call in self.on_relief:
                    call()
            self._idle.set()

    async def _send(self, verdicts: list[Verdict]) -> None:
        for verb, chosen in _by_verb(verdicts).items():
            for distinct in _distinct(chosen):
                await self._settle(verb, distinct)

    async def _settle(self, verb: str, verdicts: list[Verdict]) -> None:
        """Settle a batch. While the database is unavailable, retry until the leases expire."""
        pause, refused = 0.05, 0
        while held := _still_held(verdicts):
            try:
                settled = await self._connection.run(COMMANDS[verb](held), timeout=_TIMEOUT)
            except DatabaseUnavailableError as error:
                logger.debug("nothing can be settled: %s", error)
            except (PenstockError, psycopg.Error) as error:
                logger.warning("%d messages were not settled (%s)", len(held), verb, exc_info=True)
                refused += _refusals(verb, error)
                if refused >= _REFUSALS and verb == "complete":
                    await self._settle_halves(held, error)
                    return
                if refused >= _REFUSALS:
                    await self._settle_apart(verb, held)
                    return
            else:
                self.settled_count += len(settled)
                if self.on_members is not None and any(d._may_be_member for d, _ in verdicts):
                    self.on_members()
                if verb in _MAY_BURY:
                    await self._announce_dead(verdicts, settled)
                if len(settled) < len(verdicts):
                    _report_lost([each for each in verdicts if each[0].id not in settled])
                return
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, 1.0)
        _report_lost(verdicts)

    async def _announce_dead(self, verdicts: list[Verdict], settled: Any) -> None:
        """Notify the waiters for results of tasks that have become dead letters.

        This only saves time, because waiters look periodically too.
        """
        dead = [
            delivery.id
            for delivery, outcome in verdicts
            if isinstance(outcome, (Retry, Reject))
            and delivery._handler is not None
            and delivery._handler.keeps_result
            and settled.get(delivery.id) == "dead"
        ]
        if dead:
            with suppress(PenstockError, psycopg.Error):
                for start in range(0, len(dead), IDS_IN_NOTIFICATION):
                    ids = ",".join(map(str, dead[start : start + IDS_IN_NOTIFICATION]))
                    await self._connection.run(notify(RESULTS_CHANNEL, ids), timeout=_TIMEOUT)

    async def _settle_halves(self, verdicts: list[Verdict], error: Exception) -> None:
        """One of these acks enqueues a message that is refused. Find it, and settle the others.

        Another attempt at the same statement may never succeed: a full queue stays full if only
        this worker serves it. So the refused message has failed, and is tried again later.
        """
        if len(verdicts) > 1:
            middle = len(verdicts) // 2
            await self._settle("complete", verdicts[:middle])
            await self._settle("complete", verdicts[middle:])
            return
        delivery = verdicts[0][0]
        assert delivery._handler is not None
        logger.warning(
            "the ack of message %d was refused, so its attempt has failed: %s",
            delivery.id,
            error,
            extra={"queue": delivery.queue, "id": delivery.id, "attempt": delivery.attempt},
        )
        self.settle(delivery, delivery._handler.retry.outcome(error, delivery.attempt))

    async def _settle_apart(self, verb: str, verdicts: list[Verdict]) -> None:
        """One message cannot be settled. Settle the others separately."""
        if len(verdicts) == 1:
            delivery = verdicts[0][0]
            logger.error("message %d cannot be settled; its lease will expire", delivery.id)
            return
        for verdict in verdicts:
            await self._settle(verb, [verdict])


def _refusals(verb: str, error: Exception) -> int:
    """How much an error counts towards _REFUSALS. 0 if it is temporary and concerns all messages.

    What a message enqueues with its ack can be refused, and the same statement is refused again.
    """
    is_temporary = getattr(error, "retryable", False)
    if verb != "complete":
        return 0 if is_temporary else 1
    if isinstance(error, DatabaseReadOnlyError):
        return 0
    return 1 if is_temporary and not isinstance(error, QueueFullError) else _REFUSALS


def _by_verb(verdicts: list[Verdict]) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        outcome = verdict[1]
        verb = "ack" if outcome is None else outcome.verb
        found.setdefault(verb, []).append(verdict)
    return found


def _distinct(verdicts: list[Verdict]) -> list[list[Verdict]]:
    """Batches in which each message occurs once, because the answer to a batch names messages.

    A message occurs twice if its lease expired and this worker claimed it again.
    """
    if len({delivery.id for delivery, _ in verdicts}) == len(verdicts):
        return [verdicts]
    batches: list[dict[int, Verdict]] = []
    for verdict in verdicts:
        id = verdict[0].id
        for batch in batches:
            if id not in batch:
                batch[id] = verdict
                break
        else:
            batches.append({id: verdict})
    return [list(batch.values()) for batch in batches]


def _still_held(verdicts: list[Verdict]) -> list[Verdict]:
    now = monotonic()
    return [verdict for verdict in verdicts if verdict[0]._held_until > now]


def _pairs(verdicts: list[Verdict]) -> list[tuple[int, int]]:
    return [(delivery.id, delivery.token) for delivery, _ in verdicts]


def _ack(verdicts: list[Verdict]) -> Command[Any]:
    return ack_pairs(_pairs(verdicts))


def _nack(verdicts: list[Verdict]) -> Command[Any]:
    outcomes = [outcome for _, outcome in verdicts if isinstance(outcome, Retry)]
    errors = [outcome.error or str(outcome) for outcome in outcomes]
    return write.nack_many(_pairs(verdicts), errors, [outcome.after for outcome in outcomes])


def _snooze(verdicts: list[Verdict]) -> Command[Any]:
    delays = [outcome.delay for _, outcome in verdicts if isinstance(outcome, Snooze)]
    return write.snooze_many(_pairs(verdicts), delays)


def _reject(verdicts: list[Verdict]) -> Command[Any]:
    outcomes = [outcome for _, outcome in verdicts if isinstance(outcome, Reject)]
    return write.reject_many(_pairs(verdicts), [each.reason or str(each) for each in outcomes])


def _complete(verdicts: list[Verdict]) -> Command[Any]:
    return complete_many(
        [
            Completion(
                d.queue, d.id, d.token, outcome.value, outcome.keep_seconds, outcome.enqueues
            )
            for d, outcome in verdicts
            if isinstance(outcome, Complete)
        ]
    )


COMMANDS: Final[dict[str, Callable[[list[Verdict]], Command[Any]]]] = {
    "ack": _ack,
    "complete": _complete,
    "nack": _nack,
    "snooze": _snooze,
    "reject": _reject,
}


def _report_lost(verdicts: list[Verdict]) -> None:
    for delivery, _ in verdicts:
        if delivery._acked_elsewhere:
            continue
        logger.warning(
            "the lease on message %d was lost before it was settled",
            delivery.id,
            extra={"queue": delivery.queue, "id": delivery.id, "attempt": delivery.attempt},
        )
