"""Random operations by several sessions at once, step by step, against a model of the rules.

Three real connections, each sometimes in its own transaction and sometimes without; every step is
chosen, and where it fails shrunk, by hypothesis. A step that would wait for another session's
lock is refused at once. After every step everything that is committed must be as the model says;
in the end everything that was committed must come out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from tests.late import late_from

from penstock.sql.expand import LATE_FROM

from .plans import Arguments, Plan, plans
from .play import Play
from .steps import Steps


@pytest.fixture
def run(dsn: str, record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Plays so many plans of so many steps; says in the end how much that was.

    The same plans every time, or new ones.
    """

    def run(runs: int, steps: int, *, same: bool, late: int) -> None:
        arena = Steps(dsn)
        late_from(arena.admin, late)

        @settings(
            max_examples=runs,
            deadline=None,
            derandomize=same,
            database=None,  # a run that failed is kept in test_found.py
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @given(planned=plans(steps))
        def play(planned: tuple[Arguments, Plan]) -> None:
            queues, plan = planned
            note("\n".join(f"{name} {arguments}" for name, arguments in [("start", queues), *plan]))
            Play(arena).perform(queues, plan)

        started = time.monotonic()
        try:
            play()
        finally:
            took = time.monotonic() - started
            figures = f"{arena.runs} runs, {arena.steps} steps checked, {took:.0f} s"
            record_property("figures", figures)
            print(figures)
            arena.close()

    return run


@pytest.mark.parametrize("late", [LATE_FROM, 0])
def test_several_sessions_keep_the_rules(run: Callable[..., None], late: int) -> None:
    run(40, 30, same=True, late=late)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(20))  # 2,000 runs in all, for several processes to share
def test_several_sessions_keep_the_rules_for_long(run: Callable[..., None], part: int) -> None:
    run(100, 50, same=False, late=LATE_FROM if part % 2 else 0)
