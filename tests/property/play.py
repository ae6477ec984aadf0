"""The steps by name, each with what it needs picked from what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from .model import Queue
from .putting import Draft
from .steps import Steps

T = TypeVar("T")


def pick(candidates: Sequence[T], index: int) -> T | None:
    return candidates[index % len(candidates)] if candidates else None


class Play:
    """Plays a plan: a list of steps by name. A step that has nothing to work on does nothing."""

    def __init__(self, arena: Steps) -> None:
        self.arena = arena

    def perform(self, queues: dict[str, Any], plan: list[tuple[str, dict[str, Any]]]) -> None:
        self.start(**queues)
        for name, arguments in plan:
            getattr(self, name)(**arguments)
            self.arena.check()
        self.drain()

    def start(
        self, keep: int, dlq: bool, attempts: int, depth: int | None, flight: int | None
    ) -> None:
        self.arena.reset(
            [
                Queue("rich", False, keep, dlq, attempts, depth, flight),
                Queue("plain", True, keep, dlq, attempts),
            ]
        )

    def begin(self, s: int, repeatable: bool) -> None:
        session = self.arena.sessions[s]
        if not session.open:
            self.arena.begin(session, repeatable)

    def commit(self, s: int) -> None:
        if self.arena.sessions[s].open:
            self.arena.commit(self.arena.sessions[s])

    def roll_back(self, s: int) -> None:
        if self.arena.sessions[s].open:
            self.arena.roll_back(self.arena.sessions[s])

    def enqueue_rich(
        self, s: int, drafts: list[Draft], conflict: str, unique: str, many: bool
    ) -> None:
        self._enqueue(s, "rich", drafts, many, conflict, unique)

    def enqueue_plain(
        self, s: int, drafts: list[Draft], conflict: str, unique: str, many: bool
    ) -> None:
        self._enqueue(s, "plain", drafts, many, conflict, unique)

    def enqueue_plainest(self, s: int, count: int) -> None:
        self._enqueue(s, "plain", [Draft()] * count, count > 1, "replace", "waiting")

    def _enqueue(
        self, s: int, queue: str, drafts: list[Draft], many: bool, conflict: str, unique: str
    ) -> None:
        session = self.arena.sessions[s]
        bounded = self.arena.queues[queue].max_depth is not None
        if session.repeatable and (bounded or any(d.key for d in drafts)):
            return  # a snapshot may not show the holder of the key, nor how full the queue is
        self.arena.enqueue(session, queue, drafts if many else drafts[:1], many, conflict, unique)

    def claim(self, s: int, queue: str, count: int, upkeep: bool) -> None:
        self.arena.claim(self.arena.sessions[s], queue, count, upkeep)

    def claim_dead(self, s: int, queue: str, count: int) -> None:
        self.arena.claim_dead(self.arena.sessions[s], queue, count)

    def settle(self, s: int, index: int, verb: str) -> None:
        session = self.arena.sessions[s]
        if message := pick(self.arena.leases(session), index):
            self.arena.settle(session, message, verb)

    def ack_many(self, s: int, index: int, count: int, with_lost: bool) -> None:
        session = self.arena.sessions[s]
        leases = self.arena.leases(session)
        if leases:
            first = index % len(leases)
            # One: the tokens of several could belong to messages whose ids are in the call, too.
            lost = self.arena.lost_leases(session)[:1] if with_lost else []
            self.arena.ack_many(session, leases[first : first + count], lost)

    def settle_lost(self, s: int, index: int, verb: str) -> None:
        session = self.arena.sessions[s]
        if lost := pick(self.arena.lost_leases(session), index):
            self.arena.settle_lost(session, lost, verb)

    def cancel(self, s: int, index: int) -> None:
        session = self.arena.sessions[s]
        known = sorted(session.layer, key=lambda m: m.finished)  # and one that is finished
        unfinished = sum(not m.finished for m in known)
        if not session.repeatable and (message := pick(known[: unfinished + 1], index)):
            self.arena.cancel(session, message)

    def purge(self, s: int, queue: str, which: str) -> None:
        if not self.arena.sessions[s].repeatable:
            self.arena.purge(self.arena.sessions[s], queue, which)

    def redrive(self, s: int, queue: str, at_most: int) -> None:
        if not self.arena.sessions[s].repeatable:
            self.arena.redrive(self.arena.sessions[s], queue, at_most)

    def pause(self, s: int, queue: str, paused: bool) -> None:
        if not self.arena.sessions[s].open:
            self.arena.pause(self.arena.sessions[s], queue, paused)

    def maintain(self, s: int, full: bool) -> None:
        if not self.arena.sessions[s].open:
            self.arena.maintain(self.arena.sessions[s], full)

    def lease_runs_out(self, index: int) -> None:
        if message := pick([m for m in self.arena.committed.values() if m.held], index):
            self.arena.let_lease_run_out(message)

    def delay_ends(self, index: int) -> None:
        delayed = [m for m in self.arena.committed.values() if m.state == "waiting" and not m.due]
        if message := pick(delayed, index):
            self.arena.let_delay_end(message)

    def ttl_ends(self, index: int) -> None:
        mortal = [
            m
            for m in self.arena.committed.values()
            if m.has_ttl and not m.outlived and not m.finished
        ]
        if message := pick(mortal, index):
            self.arena.let_ttl_end(message)

    def rotate(self, times: int) -> None:
        self.arena.rotate(times)
        if times >= 5:  # segments run short: the oldest is cleared into the overflow segment
            self.arena.tend()

    def tend_ring(self) -> None:
        self.arena.tend()

    def mislead(self, queue: str) -> None:
        self.arena.mislead(queue)

    def drain(self) -> None:
        """Everything that was committed comes out, and leaves nothing behind."""
        arena = self.arena
        for session in arena.sessions:
            if session.open:
                (arena.commit if session.number else arena.roll_back)(session)
        arena.check()
        for queue in arena.queues:
            arena.pause(arena.sessions[0], queue, False)
        for message in list(arena.committed.values()):
            if not message.finished and message.held:
                arena.let_lease_run_out(message)
        arena.check()
        for message in list(arena.committed.values()):
            if message.state == "waiting" and not message.due:
                arena.let_delay_end(arena.committed[message.id])
        arena.check()
        for queue in arena.queues:
            self._drain_queue(queue)
        left = [m for m in arena.committed.values() if m.unsettled]
        assert not left, f"stuck: {left}"

    def _drain_queue(self, queue: str) -> None:
        empty = 0
        for _ in range(100):
            taken = self.arena.claim(self.arena.sessions[0], queue, 4, upkeep=True)
            self.arena.check()
            if not taken:  # the first may have found, at its commit, what only the second gets
                empty += 1
                if empty == 3:
                    return
                continue
            empty = 0
            self.arena.ack_many(self.arena.sessions[0], taken, [])
            self.arena.check()
        raise AssertionError("no end of messages")
