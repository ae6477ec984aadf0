"""Runs the handlers of an App on ready messages, one after the other, as a worker does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client
from penstock.commands.command import Command
from penstock.commands.lease_row import REMAINING
from penstock.commands.write import maintain, workers
from penstock.db.reconnecting import ReconnectingConnection
from penstock.model.message import Lease
from penstock.worker.app import App
from penstock.worker.delivery import Delivery
from penstock.worker.handlers import Call
from penstock.worker.outcomes import Outcome
from penstock.worker.runner import Runner
from penstock.worker.settler import COMMANDS, Settler, Verdict
from penstock.worker.threads import ThreadCaller

Run: TypeAlias = Callable[[Command[Any]], Awaitable[Any]]
WORKER: Final = "penstock.testing"
LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class Handled:
    """One run of a handler.

    Attributes:
        lease: The message.
        outcome: The outcome, or None if the message was acked.
        error: The exception that the handler raised, or None.
    """

    lease: Lease
    outcome: Outcome | None
    error: Exception | None


def drain(
    app: App, client: Client, *queues: str, limit: int = LIMIT, raise_errors: bool = True
) -> list[Handled]:
    """Run the handlers of an app until no message is ready.

    Messages that handlers enqueue are handled too. Delayed ones (a retry after a backoff, a snooze)
    are not: move them with `Clock`. All statements go through the client, so a client with
    `connection=` stays in that transaction. Tasks with `process=True` run in this process.

    Args:
        app: The app.
        client: A client of the database.
        *queues: The queues. The default is all queues of the app.
        limit: The largest number of messages.
        raise_errors: Raise the exception of a handler, after its message is settled. Otherwise it
            is only in the result.

    Returns:
        The runs, in order.

    Raises:
        AssertionError: `limit` messages were handled, and more are ready.
    """

    async def run(command: Command[Any]) -> Any:
        return client.run(command)

    # Handlers may ask their delivery for its client, which they await.
    awaitable = cast(AsyncClient, _Awaitable(client))
    return asyncio.run(drain_with(app, awaitable, run, queues, limit, raise_errors, client))


async def drain_async(
    app: App, client: AsyncClient, *queues: str, limit: int = LIMIT, raise_errors: bool = True
) -> list[Handled]:
    """Like `drain`, for an AsyncClient."""
    return await drain_with(app, client, client.run, queues, limit, raise_errors)


class _Awaitable:
    """A client whose methods can be awaited. They run synchronously."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call if callable(method) else method


async def drain_with(
    app: App,
    client: AsyncClient,
    run: Run,
    queues: Sequence[str],
    limit: int,
    raise_errors: bool,
    sync_client: Client | None = None,
    threads: ThreadCaller | None = None,
) -> list[Handled]:
    """As `drain`, with statements run by `run` and sync handlers called by `threads`."""
    drains = [_QueueDrain(app, queue, client, run) for queue in queues or app.queues]
    for each in drains:
        each.runner.sync_client = sync_client
        each.runner.threads = threads or each.runner.threads or _AnyThread()
        each.runner.processes = None
    done: list[Handled] = []
    try:
        while handled := [each for one in drains for each in await one.run_once(limit - len(done))]:
            done += handled
            errors = [each.error for each in handled if each.error is not None]
            if errors and raise_errors:
                raise errors[0]
            if len(done) >= limit:
                raise AssertionError(
                    f"{limit} messages were handled, and more are ready. Does a handler enqueue "
                    "into its own queue? If this is intended, pass a higher limit."
                )
    finally:
        for each in drains:
            each.close()
    return done


class _AnyThread:
    """Calls tasks with `process=True` of a queue that has no handlers in threads."""

    busy = 0

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        return await asyncio.to_thread(function, argument)

    def close(self) -> None:
        """The event loop keeps the threads."""


class _Verdicts(Settler):
    """A settler that only collects outcomes. They are settled on the caller's client."""

    def __init__(self) -> None:
        super().__init__(cast(ReconnectingConnection, None))
        self.ours: list[Verdict] = []
        self.came = asyncio.Event()

    def settle(self, delivery: Delivery, outcome: Outcome | None) -> None:
        self.ours.append((delivery, outcome))
        self.came.set()


class _QueueDrain:
    """Claims the messages of one queue one at a time, and runs them with the worker's runner."""

    def __init__(self, app: App, queue: str, client: AsyncClient, run: Run) -> None:
        self._run = run
        self._errors: dict[Delivery, Exception] = {}
        self._verdicts = _Verdicts()
        self._want = workers.Want(queue, 1, app[queue].lease_seconds)
        self.runner = Runner(
            app[queue], 1, self._verdicts, client, lambda call: self._noting(app.wrap(call))
        )

    def close(self) -> None:
        self.runner.close()

    async def run_once(self, limit: int) -> list[Handled]:
        """Handle the ready messages, up to the limit or the first failure."""
        # Work that the engine skips while the clock is stopped.
        await self._run(maintain(full_pass=True))
        done: list[Handled] = []
        while len(done) < limit and not any(each.error for each in done):
            rows = await self._run(workers.claim_rows(self._want, WORKER))
            if not rows:
                break
            done.append(await self._handle(rows[0]))
        return done

    async def _handle(self, row: Sequence[Any]) -> Handled:
        # If the clock is stopped, the rest of the lease by the real clock has no meaning.
        row = [*row[:REMAINING], 3600.0, *row[REMAINING + 1 :]]
        want = self.runner.reserve()
        assert want is not None
        self.runner.take(want, [row])
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
