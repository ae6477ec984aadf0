"""Random operations by several sessions at once, step by step, against a model of the rules.

Three real connections, each now in a transaction of its own and now without; every step is
chosen, and where it fails shrunk, by hypothesis. A step that would wait for another session's
lock is refused at once. After every step everything that is committed must be as the model says;
in the end everything that was committed must come out.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from .model import Queue
from .putting import Draft
from .settling import SETTLE
from .steps import Steps

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])
SESSIONS = st.integers(0, 2)
QUEUES = st.sampled_from(["rich", "plain"])
PICK = st.integers(0, 11)
KINDS = st.sampled_from(["small", "small", "large", "bytes", "large bytes", "null"])
KEYS = st.sampled_from([None, None, "k", "l"])
PLAIN = st.builds(Draft, kind=KINDS, headers=st.booleans(), key=KEYS, later=st.booleans())
RICH = st.builds(
    Draft,
    kind=KINDS,
    headers=st.booleans(),
    key=KEYS,
    later=st.sampled_from([False, False, True]),
    priority=st.sampled_from([0, 0, 5, -1]),
    group=st.sampled_from([None, "g", "g", "h"]),
    ttl=st.sampled_from([False, False, True]),
)
CONFLICTS = st.sampled_from(["replace", "replace", "skip", "error"])
UNIQUE = st.sampled_from(["waiting", "waiting", "unfinished"])
LIMITS = st.sampled_from([None, None, 3])


def pick(candidates: Sequence[T], index: int) -> T | None:
    return candidates[index % len(candidates)] if candidates else None


def step(**strategies: st.SearchStrategy[Any]) -> Callable[[F], F]:
    """A rule after which everything is checked. Where it fails, the run ends without draining."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def checked(self: Sessions, **arguments: Any) -> None:
            self.sound = False
            function(self, **arguments)
            self.arena.check()
            self.sound = True

        return rule(**strategies)(checked)  # type: ignore[return-value]

    return decorate


class Sessions(RuleBasedStateMachine):
    arena: Steps  # one for all runs: a database for each would cost more than the run
    sound = False

    @initialize(
        keep=st.sampled_from([7, 7, 0]),
        dlq=st.sampled_from([True, True, False]),
        attempts=st.integers(1, 3),
        depth=st.sampled_from([None, None, 4]),
        flight=LIMITS,
    )
    def start(
        self, keep: int, dlq: bool, attempts: int, depth: int | None, flight: int | None
    ) -> None:
        self.arena.reset(
            [
                Queue("rich", False, keep, dlq, attempts, depth, flight),
                Queue("plain", True, keep, dlq, attempts),
            ]
        )
        self.sound = True

    @step(s=SESSIONS, repeatable=st.sampled_from([False, False, True]))
    def begin(self, s: int, repeatable: bool) -> None:
        session = self.arena.sessions[s]
        if not session.open:
            self.arena.begin(session, repeatable)

    @step(s=SESSIONS)
    def commit(self, s: int) -> None:
        if self.arena.sessions[s].open:
            self.arena.commit(self.arena.sessions[s])

    @step(s=SESSIONS)
    def roll_back(self, s: int) -> None:
        if self.arena.sessions[s].open:
            self.arena.roll_back(self.arena.sessions[s])

    @step(
        s=SESSIONS,
        drafts=st.lists(RICH, min_size=1, max_size=3),
        conflict=CONFLICTS,
        unique=UNIQUE,
        many=st.booleans(),
    )
    def enqueue_rich(
        self, s: int, drafts: list[Draft], conflict: str, unique: str, many: bool
    ) -> None:
        self._enqueue(s, "rich", drafts, many, conflict, unique)

    @step(
        s=SESSIONS,
        drafts=st.lists(PLAIN, min_size=1, max_size=3),
        conflict=CONFLICTS,
        unique=UNIQUE,
        many=st.booleans(),
    )
    def enqueue_plain(
        self, s: int, drafts: list[Draft], conflict: str, unique: str, many: bool
    ) -> None:
        self._enqueue(s, "plain", drafts, many, conflict, unique)

    @step(s=SESSIONS, count=st.integers(1, 4))
    def enqueue_plainest(self, s: int, count: int) -> None:
        self._enqueue(s, "plain", [Draft()] * count, count > 1, "replace", "waiting")

    def _enqueue(
        self, s: int, queue: str, drafts: list[Draft], many: bool, conflict: str, unique: str
    ) -> None:
        session = self.arena.sessions[s]
        bounded = self.arena.queues[queue].max_depth is not None
        if session.repeatable and (bounded or any(d.key for d in drafts)):
            return  # a snapshot may not know who has the key, nor how full the queue is
        self.arena.enqueue(session, queue, drafts if many else drafts[:1], many, conflict, unique)

    def _claim(self, s: int, queue: str, count: int, upkeep: bool) -> None:
        self.arena.claim(self.arena.sessions[s], queue, count, upkeep)

    # Each rule is as likely as any other: what makes the difference stands here more than once.
    CLAIMS: ClassVar = {
        "s": SESSIONS,
        "queue": QUEUES,
        "count": st.integers(1, 4),
        "upkeep": st.booleans(),
    }
    claim = step(**CLAIMS)(_claim)
    claim_more = step(**CLAIMS)(_claim)
    claim_again = step(**CLAIMS)(_claim)

    @step(s=SESSIONS, queue=QUEUES, count=st.integers(1, 3))
    def claim_dead(self, s: int, queue: str, count: int) -> None:
        self.arena.claim_dead(self.arena.sessions[s], queue, count)

    def _settle(self, s: int, index: int, verb: str) -> None:
        session = self.arena.sessions[s]
        if message := pick(self.arena.leases(session), index):
            self.arena.settle(session, message, verb)

    SETTLES: ClassVar = {"s": SESSIONS, "index": PICK, "verb": st.sampled_from(sorted(SETTLE))}
    settle = step(**SETTLES)(_settle)
    settle_more = step(**SETTLES)(_settle)
    settle_again = step(**SETTLES)(_settle)

    @step(s=SESSIONS, index=PICK, count=st.integers(1, 4), with_lost=st.booleans())
    def ack_many(self, s: int, index: int, count: int, with_lost: bool) -> None:
        session = self.arena.sessions[s]
        leases = self.arena.leases(session)
        if leases:
            first = index % len(leases)
            lost = self.arena.lost_leases(session)[:2] if with_lost else []
            self.arena.ack_many(session, leases[first : first + count], lost)

    @step(s=SESSIONS, index=PICK, verb=st.sampled_from(sorted(SETTLE)))
    def settle_lost(self, s: int, index: int, verb: str) -> None:
        session = self.arena.sessions[s]
        if lost := pick(self.arena.lost_leases(session), index):
            self.arena.settle_lost(session, lost, verb)

    @step(s=SESSIONS, index=PICK)
    def cancel(self, s: int, index: int) -> None:
        session = self.arena.sessions[s]
        if not session.repeatable and (message := pick(list(session.layer), index)):
            self.arena.cancel(session, message)

    @step(s=SESSIONS, queue=QUEUES, which=st.sampled_from(["waiting", "leased", "dead"]))
    def purge(self, s: int, queue: str, which: str) -> None:
        if not self.arena.sessions[s].repeatable:
            self.arena.purge(self.arena.sessions[s], queue, which)

    @step(s=SESSIONS, queue=QUEUES, at_most=st.integers(1, 3))
    def redrive(self, s: int, queue: str, at_most: int) -> None:
        if not self.arena.sessions[s].repeatable:
            self.arena.redrive(self.arena.sessions[s], queue, at_most)

    @step(s=SESSIONS, queue=QUEUES, paused=st.booleans())
    def pause(self, s: int, queue: str, paused: bool) -> None:
        if not self.arena.sessions[s].open:
            self.arena.pause(self.arena.sessions[s], queue, paused)

    @step(s=SESSIONS, full=st.booleans())
    def maintain(self, s: int, full: bool) -> None:
        if not self.arena.sessions[s].open:
            self.arena.maintain(self.arena.sessions[s], full)

    @step(index=PICK)
    def lease_runs_out(self, index: int) -> None:
        if message := pick([m for m in self.arena.committed.values() if m.held], index):
            self.arena.let_lease_run_out(message)

    @step(index=PICK)
    def delay_ends(self, index: int) -> None:
        delayed = [m for m in self.arena.committed.values() if m.state == "waiting" and not m.due]
        if message := pick(delayed, index):
            self.arena.let_delay_end(message)

    @step(index=PICK)
    def ttl_ends(self, index: int) -> None:
        mortal = [
            m
            for m in self.arena.committed.values()
            if m.has_ttl and not m.outlived and not m.finished
        ]
        if message := pick(mortal, index):
            self.arena.let_ttl_end(message)

    @step(times=st.integers(1, 6))
    def rotate(self, times: int) -> None:
        self.arena.rotate(times)

    @step()
    def tend_ring(self) -> None:
        self.arena.tend()

    @step(queue=QUEUES)
    def mislead(self, queue: str) -> None:
        self.arena.mislead(queue)

    def teardown(self) -> None:
        if self.sound:
            self.drain()

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


@pytest.fixture
def run(dsn: str, record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Runs the machine so many times; says in the end how much that was."""

    def run(runs: int, steps: int, **options: Any) -> None:
        arena = Steps(dsn)
        machine = type("Sessions", (Sessions,), {"arena": arena})
        chosen = settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
            **options,
        )
        started = time.monotonic()
        try:
            run_state_machine_as_test(machine, settings=chosen)
        finally:
            took = time.monotonic() - started
            figures = f"{arena.runs} runs, {arena.steps} steps checked, {took:.0f} s"
            record_property("figures", figures)
            print(figures)
            arena.close()

    return run


def test_several_sessions_keep_the_rules(run: Callable[..., None]) -> None:
    # The same runs each time: what is new belongs into the long form, not into somebody's change.
    run(60, 30, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))  # 2,000 runs in all, for several processes to share
def test_several_sessions_keep_the_rules_for_long(run: Callable[..., None], part: int) -> None:
    run(500, 50, database=None)
