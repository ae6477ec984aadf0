"""The class that batches concurrent calls, alone: which calls share a statement."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.client.batching import Batcher


class Statements:
    """Answers each item with its double, and waits for `go` before each statement ends."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = asyncio.Event()
        self.undone: list[int] = []

    async def flush(self, kind: str, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        await self.go.wait()
        return [ValueError(kind) if item < 0 else item * 2 for item in items]

    async def undo(self, answers: Sequence[int]) -> None:
        self.undone += answers


async def started(batcher: Batcher[str, int, int], *items: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(batcher.submit("a", item)) for item in items]
    await asyncio.sleep(0)
    return tasks


async def test_a_call_alone_runs_at_once_and_those_behind_it_share_the_next_statement() -> None:
    made = Statements()
    tasks = await started(Batcher(made.flush), 1, 2, 3)
    assert made.batches == [[1]]
    made.go.set()
    assert await asyncio.gather(*tasks) == [2, 4, 6]
    assert made.batches == [[1], [2, 3]]


async def test_a_batch_weighs_no_more_than_it_may_but_a_heavy_call_goes_alone() -> None:
    made = Statements()
    tasks = await started(Batcher(made.flush, weight=int, max_weight=10), 1, 6, 4, 99, 2)
    made.go.set()
    await asyncio.gather(*tasks)
    assert made.batches == [[1], [6, 4], [99], [2]]


async def test_calls_that_touch_the_same_message_are_in_different_batches() -> None:
    made = Statements()
    tasks = await started(Batcher(made.flush, touches=lambda item: {item % 10}), 1, 12, 13, 22)
    made.go.set()
    await asyncio.gather(*tasks)
    assert made.batches == [[1], [12, 13], [22]]


async def test_each_call_gets_its_own_error() -> None:
    made = Statements()
    tasks = await started(Batcher(made.flush), 1, 2, -3)
    made.go.set()
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert (first, second) == (2, 4)
    assert isinstance(third, ValueError)


@pytest.mark.parametrize("gather", [False, True])
async def test_the_answer_of_a_caller_that_was_cancelled_is_undone(gather: bool) -> None:
    made = Statements()
    batcher: Batcher[str, int, int] = Batcher(made.flush, undo=made.undo, gather=gather)
    first = batcher.put("a", 1, "one")
    await asyncio.sleep(0)
    waiting = batcher.put("a", 2, "two")
    never = batcher.put("a", 3, "three")
    assert made.batches == [[1]]
    first.cancel()
    never.cancel()
    made.go.set()
    assert await waiting == 4
    assert made.batches == [[1], [2]]
    assert made.undone == [2]


async def test_kinds_do_not_wait_for_each_other() -> None:
    made = Statements()
    batcher: Batcher[str, int, int] = Batcher(made.flush)
    tasks: list[Any] = [asyncio.create_task(batcher.submit(kind, 1)) for kind in "abc"]
    await asyncio.sleep(0)
    assert made.batches == [[1], [1], [1]]
    made.go.set()
    assert await asyncio.gather(*tasks) == [2, 2, 2]


async def test_callers_that_come_again_and_again_share_one_statement() -> None:
    """With `gather` a batch waits for the callers that were here just before."""
    made = Statements()
    made.go.set()
    batcher: Batcher[str, int, int] = Batcher(made.flush, gather=True)

    async def call(caller: str) -> None:
        for _ in range(50):
            await batcher.submit("a", 1, caller)

    await asyncio.gather(*(call(f"caller {number}") for number in range(4)))
    assert sum(map(len, made.batches)) == 200
    assert max(map(len, made.batches)) == 4
