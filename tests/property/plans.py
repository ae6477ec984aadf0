"""Plans: which steps are taken, and with what.

hypothesis chooses a seed, and which of the steps that follow from it are taken: so every plan is
as random as can be, and where one fails it is shrunk to the steps that matter. Steps that were
drawn by hypothesis one by one, or by its state machine, resemble each other too much: in 60 runs
they found four and one of ten bugs put in on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import strategies as st

from .putting import Draft
from .settling import SETTLE

Plan = list[tuple[str, dict[str, Any]]]
Arguments = dict[str, Any]
VERBS = sorted(SETTLE)


def queues(r: Random) -> Arguments:
    return {
        "keep": r.choice([7, 7, 0]),
        "dlq": r.choice([True, True, False]),
        "attempts": r.randint(1, 3),
        "depth": r.choice([None, None, 4]),
        "flight": r.choice([None, None, 3]),
    }


def drafts(r: Random, rich: bool) -> list[Draft]:
    return [rich_draft(r) if rich else plain_draft(r) for _ in range(r.randint(1, 3))]


def plain_draft(r: Random, **more: Any) -> Draft:
    return Draft(
        kind=r.choice(["small", "small", "large", "bytes", "large bytes", "null"]),
        headers=r.random() < 0.5,
        key=r.choice([None, None, "k", "l"]),
        later=r.random() < 0.3,
        **more,
    )


def rich_draft(r: Random) -> Draft:
    priority = r.choice([0, 0, 5, -1])
    group = r.choice([None, "g", "g", "h"])
    return plain_draft(r, priority=priority, group=group, ttl=r.random() < 0.3)


def by(r: Random, **more: Any) -> Arguments:
    return {"s": r.randint(0, 2), **more}


def at(r: Random, **more: Any) -> Arguments:
    return by(r, index=r.randint(0, 11), **more)


def within(r: Random, **more: Any) -> Arguments:
    return by(r, queue=r.choice(["rich", "plain"]), **more)


def enqueued(r: Random, rich: bool) -> Arguments:
    return by(
        r,
        drafts=drafts(r, rich),
        conflict=r.choice(["replace", "replace", "skip", "error"]),
        unique=r.choice(["waiting", "waiting", "unfinished"]),
        many=r.random() < 0.5,
    )


# How often, and with what.
STEPS: dict[str, tuple[float, Callable[[Random], Arguments]]] = {
    "begin": (6, lambda r: by(r, repeatable=r.random() < 0.25)),
    "commit": (4, by),
    "roll_back": (3, by),
    "enqueue_rich": (10, lambda r: enqueued(r, rich=True)),
    "enqueue_plain": (6, lambda r: enqueued(r, rich=False)),
    "enqueue_plainest": (4, lambda r: by(r, count=r.randint(1, 4))),
    "claim": (14, lambda r: within(r, count=r.randint(1, 4), upkeep=r.random() < 0.5)),
    "claim_dead": (2, lambda r: within(r, count=r.randint(1, 3))),
    "settle": (12, lambda r: at(r, verb=r.choice(VERBS))),
    "settle_lost": (4, lambda r: at(r, verb=r.choice(VERBS))),
    "ack_many": (3, lambda r: at(r, count=r.randint(1, 4), with_lost=r.random() < 0.5)),
    "cancel": (3, at),
    "purge": (1, lambda r: within(r, which=r.choice(["waiting", "leased", "dead"]))),
    "redrive": (2, lambda r: within(r, at_most=r.randint(1, 3))),
    "pause": (1, lambda r: within(r, paused=r.random() < 0.3)),
    "maintain": (2, lambda r: by(r, full=r.random() < 0.5)),
    "lease_runs_out": (7, lambda r: {"index": r.randint(0, 11)}),
    "delay_ends": (4, lambda r: {"index": r.randint(0, 11)}),
    "ttl_ends": (2, lambda r: {"index": r.randint(0, 11)}),
    "rotate": (4, lambda r: {"times": r.choice([1, 1, 2, 5, 6, 7])}),
    "tend_ring": (4, lambda r: {}),
    "mislead": (0.5, lambda r: {"queue": r.choice(["rich", "plain"])}),
}


def planned(seed: int, taken: list[int]) -> tuple[Arguments, Plan]:
    r = Random(seed)
    names = r.choices(list(STEPS), [often for often, _ in STEPS.values()], k=len(taken))
    steps = [(name, STEPS[name][1](r)) for name in names]
    return queues(r), [step for step, take in zip(steps, taken, strict=True) if take]


def plans(steps: int) -> st.SearchStrategy[tuple[Arguments, Plan]]:
    """The settings of the queues, and the steps: nearly all of them, fewer where it is shrunk."""
    taken = st.lists(st.integers(0, 63), min_size=steps, max_size=steps)
    return st.builds(planned, st.integers(0, 2**64 - 1), taken)
