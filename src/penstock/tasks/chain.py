"""Chains: tasks that run one after the other, each with the result of the previous one.

The first message carries the other steps in its header `penstock-chain`. The ack of a step enqueues
the next one in the same transaction, so that a step follows exactly if the previous one is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload

from penstock.commands import arguments as check
from penstock.commands import write
from penstock.commands.arguments import UNSET
from penstock.commands.payload import decode_json
from penstock.commands.write.results import get_outcome
from penstock.errors import MessageNotFoundError, TaskArgumentsError
from penstock.model.message import NewMessage
from penstock.tasks.call import Call
from penstock.tasks.clients import AppClients
from penstock.tasks.handle import Handle
from penstock.tasks.task import Task

R = TypeVar("R")

CHAIN_HEADER: Final = "penstock-chain"
BATCH_HEADER: Final = "penstock-batch"
MAX_STEPS: Final = 100
# The parameters of `penstock.enqueue` that a step may have.
_PARAMETERS: Final = frozenset(
    {
        *("queue", "payload", "headers", "key", "priority", "group_key", "delay", "visible_at"),
        *("ttl", "max_attempts", "on_conflict", "unique_while"),
    }
)


class ChainHandle(Handle[R]):
    """A chain that was enqueued. `id` is the id of its first message."""

    async def cancel(self) -> None:
        """Cancel the step that waits or runs. The steps after it are never enqueued.

        If the last task keeps no result, only the first step can be cancelled.

        Raises:
            MessageNotFoundError: The chain has ended.
        """
        run = self.task._clients.async_client.run
        id = self.id
        while True:
            try:
                await run(write.cancel(id))
            except MessageNotFoundError:
                outcome = await run(get_outcome(id))
                if outcome is None or outcome.next_id is None:
                    raise
                id = outcome.next_id
            else:
                return

    def cancel_sync(self) -> None:
        """As `cancel`, for code that is not async."""
        run = self.task._clients.sync_client.run
        id = self.id
        while True:
            try:
                run(write.cancel(id))
            except MessageNotFoundError:
                outcome = run(get_outcome(id))
                if outcome is None or outcome.next_id is None:
                    raise
                id = outcome.next_id
            else:
                return

    def _call(self, id: int) -> str:
        """The task of the step is unknown: the handle has that of the last one."""
        return f"call {id} in the chain that ends with task {self.task.name!r}"


@dataclass(frozen=True, slots=True)
class Chain(Generic[R]):
    """Calls that run one after the other. `chain()` makes one."""

    steps: tuple[Call[Any], ...]

    @property
    def clients(self) -> AppClients:
        return self.steps[0].clients

    @property
    def queue(self) -> str:
        """The queue of the first step."""
        return self.steps[0].queue

    async def enqueue(self, *, connection: Any = UNSET) -> ChainHandle[R]:
        """Enqueue the first step. TaskArgumentsError if the arguments of a step do not fit."""
        first = self._first().task.options(connection=connection)
        handle = await first.enqueue(*self.steps[0].args, **self.steps[0].kwargs)
        return ChainHandle(handle.id, self.steps[-1].task)

    def enqueue_sync(self, *, connection: Any = UNSET) -> ChainHandle[R]:
        """As `enqueue`, for code that is not async."""
        first = self._first().task.options(connection=connection)
        handle = first.enqueue_sync(*self.steps[0].args, **self.steps[0].kwargs)
        return ChainHandle(handle.id, self.steps[-1].task)

    def enqueue_with_ack(self) -> None:
        """Enqueue the first step together with the ack of the handler that runs."""
        first = self._first()
        first.task.enqueue_with_ack(*first.args, **first.kwargs)

    def message(self) -> NewMessage:
        """The message of the first step, which carries the others."""
        return self._first().message()

    def json_message(self) -> dict[str, Any]:
        """The same as the parameters of `penstock.enqueue`, in JSON."""
        return self._first().json_message()

    def _first(self) -> Call[Any]:
        first, *others = self.steps
        if not others:
            return first
        last: Task[..., Any] = self.steps[-1].task
        header = {
            "steps": [_step(call) for call in others],
            "keep_seconds": last.returns.keep_seconds,
        }
        headers = {**(first.task._options.get("headers") or {}), CHAIN_HEADER: header}
        return Call(first.task.options(headers=headers), first.args, first.kwargs, False)


@overload
def chain(first: Call[Any], last: Call[R], /) -> Chain[R]: ...
@overload
def chain(first: Call[Any], second: Call[Any], last: Call[R], /) -> Chain[R]: ...
@overload
def chain(first: Call[Any], second: Call[Any], third: Call[Any], last: Call[R], /) -> Chain[R]: ...
@overload
def chain(*calls: Call[Any] | Chain[Any]) -> Chain[Any]: ...
def chain(*calls: Call[Any] | Chain[Any]) -> Chain[Any]:
    """Make a chain of calls that run one after the other.

        await chain(fetch.s(url), parse.s(), store.s()).enqueue()

    A step begins when the previous one is done, and gets its result as the first argument unless it
    was made by `task.si(...)`. If a step becomes a dead letter, the steps after it wait until it is
    redriven and done.

    Args:
        calls: The calls (`task.s(...)`) or chains, in their order.

    Returns:
        A Chain. `await chain(...).enqueue()` enqueues its first step.
    """
    steps: list[Call[Any]] = []
    for call in calls:
        if not isinstance(call, Call | Chain):
            raise check.refuse("chain", call, "calls of tasks: task.s(...) or task.si(...)")
        steps += call.steps if isinstance(call, Chain) else [call]
    if not 1 <= len(steps) <= MAX_STEPS:
        raise check.refuse("chain", f"{len(steps)} steps", f"1 to {MAX_STEPS} steps")
    return Chain(tuple(steps))


def _step(call: Call[Any]) -> dict[str, Any]:
    if call.takes_previous:
        text, into = call.task.arguments.encode_rest(call.args, call.kwargs)
        step = call.task._json_parameters(text)
        return {**step, "into": into}
    return call.json_message()


class NextStep(NamedTuple):
    """The message of the next step, and for how long the chain can be awaited."""

    message: dict[str, Any]
    keep_seconds: int | None


def next_step(headers: Mapping[str, Any], result: str | None) -> NextStep | None:
    """The step that follows a message with these headers; None if there is none.

    `result` is the JSON text of what the task returned. TaskArgumentsError if the header is not
    valid: a header may come from anywhere.
    """
    header = headers.get(CHAIN_HEADER)
    if header is None:
        return None
    if not isinstance(header, dict):
        raise _invalid("it is not an object")
    steps, keep_seconds = header.get("steps"), header.get("keep_seconds")
    if not isinstance(steps, list) or not 1 <= len(steps) < MAX_STEPS:
        raise _invalid("steps is not a list of steps")
    if keep_seconds is not None and not (
        type(keep_seconds) is int and 1 <= keep_seconds <= 315_360_000
    ):
        raise _invalid("keep_seconds is out of range")
    message = _message(steps[0], result)
    for name in (BATCH_HEADER, CHAIN_HEADER):
        message["headers"].pop(name, None)
    if BATCH_HEADER in headers:
        message["headers"][BATCH_HEADER] = headers[BATCH_HEADER]
    if len(steps) > 1:
        message["headers"][CHAIN_HEADER] = {**header, "steps": steps[1:]}
    return NextStep(message, keep_seconds)


def _message(step: Any, result: str | None) -> dict[str, Any]:
    if not isinstance(step, dict) or not isinstance(step.get("headers"), dict):
        raise _invalid("a step is not an object with headers")
    queue, payload, into = step.get("queue"), step.get("payload"), step.get("into")
    # A worker may have more rights than the producer of the message.
    if not isinstance(queue, str) or queue.startswith("penstock."):
        raise _invalid(f"a step is for queue {queue!r:.100}")
    message = {name: value for name, value in step.items() if name in _PARAMETERS}
    message["headers"] = dict(step["headers"])
    if into is not None:
        if not isinstance(payload, dict) or not isinstance(into, str):
            raise _invalid("a step has no object of arguments")
        message["payload"] = {**payload, into: decode_json(result) if result else None}
    return message


def _invalid(reason: str) -> TaskArgumentsError:
    return TaskArgumentsError(
        f"the header {CHAIN_HEADER} is not valid: {reason}",
        hint="Let chain(...).enqueue() write it.",
    )
