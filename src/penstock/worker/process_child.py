"""The child process that runs tasks, one after the other, on behalf of its worker."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from penstock.errors import PenstockError, TaskArgumentsError
from penstock.tasks.task import Task
from penstock.worker.outcomes import Complete, Outcome, Reject


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a child finds a task. It imports the task, because functions cannot be sent."""

    module: str
    name: str
    dsn: str | None
    around: str | None = None  # `module:name` of a context manager around each call


@dataclass(frozen=True, slots=True)
class Run:
    """A call for a child: the payload, and whether the worker needs the result in any case."""

    payload: str | None
    always_encode: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a run: an outcome (None: a bare ack), or an error and its traceback."""

    outcome: Outcome | None = None
    error: BaseException | None = None
    traceback: str | None = None
    peak_bytes: int = 0


def serve(connection: Connection, place: TaskPlace) -> None:
    """Run calls until the worker closes the pipe or ends."""
    # A signal to the whole process group is for the worker, which decides when its children end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        around = find_around(place)
        task = find_task(place)
        while True:
            connection.send(run(task, connection.recv(), around))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


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
        raise TypeError(f"{place.module}.{place.name} is no task")
    if found._clients.dsn is None:
        found._clients.dsn = place.dsn
    return found


def run(
    task: Task[..., Any],
    what: Run,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Answer:
    """Call the task. The child continues after any exception."""
    try:
        args, kwargs = task.arguments.decode(what.payload)
        with around():
            value = task.function(*args, **kwargs)
            if inspect.iscoroutine(value):
                value = asyncio.run(value)
        outcome = completed(task, value, always=what.always_encode)
        return Answer(outcome=outcome, peak_bytes=_peak_bytes())
    except TaskArgumentsError as error:
        return Answer(outcome=Reject(error))
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        return Answer(error=_sendable(error), traceback=text, peak_bytes=_peak_bytes())


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
