"""Runs the handlers of an App on what is ready, one message after the other, as a worker would."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from penstock.client import Client
from penstock.client_async import AsyncClient
from penstock.command import Command
from penstock.link import Link
from penstock.message import Lease
from penstock.operations import maintain, waiting
from penstock.worker.acker import COMMANDS, Acker, Verdict
from penstock.worker.app import App, Call
from penstock.worker.delivery import Delivery
from penstock.worker.outcomes import Outcome
from penstock.worker.runner import Runner

Run: TypeAlias = Callable[[Command[Any]], Awaitable[Any]]
WORKER: Final = "penstock.testing"
LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class Handled:
    """One run of a handler. `outcome` is None where it returned, `error` what it raised."""

    lease: Lease
    outcome: Outcome | None
    error: Exception | None


def drain(
    app: App, client: Client, *queues: str, limit: int = LIMIT, raise_errors: bool = True
) -> list[Handled]:
    """Handle what is ready in the app's queues, or in those named, until nothing is.

    What handlers enqueue meanwhile is handled too; what they put off (a retry after a backoff, a
    snooze) is not: see Clock. Everything goes through the client, so one with a `connection` of the
    caller's stays in that transaction. A handler that raises has its message settled, and raises
    here; with `raise_errors=False` it is only noted.
    """

    async def run(command: Command[Any]) -> Any:
        return client.run(command)

    # Handlers may ask their delivery for its client, which they await.
    awaitable = cast(AsyncClient, _Awaitable(client))
    return asyncio.run(_drain(app, awaitable, run, queues, limit, raise_errors))


async def drain_async(
    app: App, client: AsyncClient, *queues: str, limit: int = LIMIT, raise_errors: bool = True
) -> list[Handled]:
    """As `drain`, for an AsyncClient."""
    return await _drain(app, client, client.run, queues, limit, raise_errors)


class _Awaitable:
    """A client whose methods are awaited, though they have done their work by then."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call if callable(method) else method


async def _drain(
    app: App, client: AsyncClient, run: Run, queues: Sequence[str], limit: int, raise_errors: bool
) -> list[Handled]:
    drains = [_QueueDrain(app, queue, client, run) for queue in queues or app.queues]
    done: list[Handled] = []
    try:
        while handled := [each for one in drains for each in await one.run_once(limit - len(done))]:
            done += handled
            errors = [each.error for each in handled if each.error is not None]
            if errors and raise_errors:
                raise errors[0]
            if len(done) >= limit:
                raise AssertionError(
                    f"{limit} messages were handled, and there are more: does a handler enqueue "
                    "what it handles? If it is meant to be, give a higher limit."
                )
    finally:
        for each in drains:
            each.close()
    return done


class _Verdicts(Acker):
    """An acker that only notes; `ours` settles, on the caller's own client."""

    def __init__(self) -> None:
        super().__init__(cast(Link, None))
        self.ours: list[Verdict] = []
        self.came = asyncio.Event()

    def settle(self, delivery: Delivery, outcome: Outcome | None) -> None:
        self.ours.append((delivery, outcome))
        self.came.set()


class _QueueDrain:
    """One queue: claims one message at a time, and has the worker's own runner run it."""

    def __init__(self, app: App, queue: str, client: AsyncClient, run: Run) -> None:
        self._run = run
        self._errors: dict[Delivery, Exception] = {}
        self._verdicts = _Verdicts()
        self._want = waiting.Want(queue, 1, app[queue].lease_seconds)
        self._runner = Runner(
            app[queue], 1, self._verdicts, client, lambda call: self._noting(app.wrap(call))
        )

    def close(self) -> None:
        self._runner.close()

    async def run_once(self, limit: int) -> list[Handled]:
        """All that is ready now, up to the limit, or up to the first that fails."""
        # What a stopped clock keeps the engine from looking at by itself.
        await self._run(maintain(full_pass=True))
        done: list[Handled] = []
        while len(done) < limit and not any(each.error for each in done):
            rows = await self._run(waiting.claim_rows(self._want, WORKER))
            if not rows:
                break
            done.append(await self._handle(rows[0]))
        return done

    async def _handle(self, row: Sequence[Any]) -> Handled:
        # Where the clock is stopped, what is left of the lease by the real one says nothing.
        row = [*row[:4], 3600.0, *row[5:]]
        want = self._runner.reserve()
        assert want is not None
        self._runner.take(want, [row])
        await self._verdicts.came.wait()
        self._verdicts.came.clear()
        [(delivery, outcome)] = self._verdicts.ours
        await self._run(COMMANDS["ack" if outcome is None else outcome.verb](self._verdicts.ours))
        self._verdicts.ours.clear()
        error = self._errors.pop(delivery, None)
        if error is None and delivery._ended is not None:
            error = TimeoutError(delivery._ended)
        return Handled(delivery.lease, outcome, error)

    def _noting(self, call: Call) -> Call:
        async def run(delivery: Delivery) -> Any:
            try:
                return await call(delivery)
            except Outcome:
                raise
            except Exception as error:
                self._errors[delivery] = error
                raise

        return run
