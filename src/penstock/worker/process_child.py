"""The child process that runs tasks, one after the other, on behalf of its worker."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Final, TypeAlias, TypeVar, cast

from penstock.client.async_client import AsyncClient
from penstock.commands.lease_row import PAYLOAD
from penstock.commands.write.progress import Report
from penstock.errors import PenstockError, TaskArgumentsError
from penstock.tasks.context import current_delivery
from penstock.tasks.task import Task
from penstock.worker.delivery import Delivery
from penstock.worker.outcomes import Complete, Outcome, Reject
from penstock.worker.progress import Reports

T = TypeVar("T")

REPORT_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a child finds a task. It imports the task, because functions cannot be sent."""

    module: str
    name: str
    dsn: str | None
    around: str | None = None  # `module:name` of a context manager around each call


@dataclass(frozen=True, slots=True)
class Run:
    """A call for a child: the row of the message, and whether the result is always needed."""

    queue: str
    row: Sequence[Any]
    always_encode: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a run: an outcome (None: a bare ack), or an error and its traceback."""

    outcome: Outcome | None = None
    error: BaseException | None = None
    traceback: str | None = None
    peak_bytes: int = 0
    enqueues: Sequence[Mapping[str, Any]] = ()
    acked_elsewhere: bool = False


Said: TypeAlias = Answer | list[Report]
"""What a child sends: what its task reports while it runs, and then how the run ended."""


class Child:
    """What the delivery of a task needs of its worker, in the child process."""

    def __init__(self, connection: Connection, task: Task[..., Any]) -> None:
        self.queue = ""
        self.sync_client: Any = None
        self.waiter: Any = None
        self.reports = Reports(self._report_soon)
        self._task = task
        self._connection = connection
        self._sending = threading.Lock()

    @property
    def client(self) -> AsyncClient:
        return self._task._clients.own_async_client

    def delivery(self, run: Run) -> Delivery:
        """The message as the worker has it. A run that loses its lease is killed."""
        self.queue = run.queue
        delivery = Delivery(cast(Any, self), run.row, math.inf)
        delivery._task_in_child = self._task
        return delivery

    def send(self, answer: Answer) -> None:
        """Send the reports of the task, then the answer."""
        self._send_reports()
        self._send(answer)

    def _report_soon(self) -> None:
        """A task may report at any pace: it is collected here for a moment, too."""
        timer = threading.Timer(REPORT_SECONDS, self._send_reports)
        timer.daemon = True
        timer.start()

    def _send_reports(self) -> None:
        if reports := self.reports.take():
            with suppress(OSError):  # the worker has ended
                self._send(reports)

    def _send(self, said: Said) -> None:
        with self._sending:
            self._connection.send(said)


def serve(connection: Connection, place: TaskPlace) -> None:
    """Run calls until the worker closes the pipe or ends."""
    # A signal to the whole process group is for the worker, which decides when its children end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_worker, name="penstock-worker-watch", daemon=True).start()
    try:
        around = find_around(place)
        task = find_task(place)
        child = Child(connection, task)
        while True:
            child.send(run(task, connection.recv(), child, around))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _end_with_worker() -> None:
    """The worker enforces the limits of the task. If it is killed, end the task too."""
    worker = multiprocessing.parent_process()
    if worker is not None:
        wait([worker.sentinel])
        os._exit(1)


def find_around(place: TaskPlace) -> Callable[[], AbstractContextManager[Any]]:
    """The context manager around each call. Its module may prepare the process for the task."""
    if place.around is None:
        return nullcontext
    module, _, name = place.around.partition(":")
    found: Callable[[], AbstractContextManager[Any]] = getattr(
        importlib.import_module(module), name
    )
    return found


def find_task(place: TaskPlace) -> Task[..., Any]:
    # The module with this name has the definitions of the worker's main program.
    module = "__mp_main__" if place.module == "__main__" else place.module
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in place.name.split("."):
        found = getattr(found, part)
    if not isinstance(found, Task):
        raise TypeError(f"{place.module}.{place.name} is not a task")
    if found._clients.dsn is None:
        found._clients.dsn = place.dsn
    return found


def run(
    task: Task[..., Any],
    what: Run,
    child: Child,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Answer:
    """Call the task. The child continues after any exception."""
    delivery = child.delivery(what)
    current = current_delivery.set(delivery)
    answer: dict[str, Any]
    try:
        args, kwargs = task.arguments.decode(what.row[PAYLOAD])
        with around():
            value = task.function(*args, **kwargs)
            if inspect.iscoroutine(value):
                value = asyncio.run(_then_close(value, task))
        outcome = completed(task, value, always=what.always_encode)
        answer = {"outcome": outcome, "enqueues": delivery._enqueues}
    except TaskArgumentsError as error:
        answer = {"outcome": Reject(error)}
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        answer = {"error": _sendable(error), "traceback": text}
    finally:
        current_delivery.reset(current)
    acked = delivery._acked_elsewhere
    return Answer(**answer, peak_bytes=_peak_bytes(), acked_elsewhere=acked)


async def _then_close(call: Coroutine[Any, Any, T], task: Task[..., Any]) -> T:
    """Each call has a loop: the clients that it opened end with it."""
    try:
        return await call
    finally:
        await task._clients.close_loop()


def completed(task: Task[..., Any], value: Any, *, always: bool = False) -> Outcome | None:
    """The result of the task as the settler stores it, or None if nothing is to be stored.

    `always`: encode it even if it is not kept, because a chain needs it.
    """
    if isinstance(value, Outcome):
        return value
    keep_seconds = task.returns.keep_seconds
    if keep_seconds is None and not always:
        return None
    try:
        return Complete(task.returns.encode(value), keep_seconds)
    except PenstockError as error:
        # Another attempt would repeat the work and return the same value.
        raise Reject(error) from None


def _sendable(error: BaseException) -> BaseException:
    """The error itself if it can be pickled and unpickled, otherwise an error with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
