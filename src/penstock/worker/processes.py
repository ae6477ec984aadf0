"""Child processes for tasks that can be killed and must not share the worker's process.

A child is started at the first use, runs one call at a time, and is kept for the next one. It is
spawned, not forked: a fork of a process with threads and open connections may hang.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.errors import ConfigurationError
from penstock.tasks.task import Task
from penstock.worker.process_child import Answer, Run, Said, TaskPlace, serve
from penstock.worker.progress import Reports

_CONTEXT: Final = multiprocessing.get_context("spawn")
# How often the memory of a child is measured while it runs a task that has a limit.
_LOOK_SECONDS: Final = 0.25
_PAGE: Final = resource.getpagesize()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """The lifetime of the processes of a task.

    Attributes:
        max_tasks: The number of runs after which a process is replaced. None means no limit.
        max_memory_mb: The memory above which a process is killed, in MB. Its run has failed then.
    """

    max_tasks: int | None = None
    max_memory_mb: int | None = None

    def __post_init__(self) -> None:
        for field in ("max_tasks", "max_memory_mb"):
            value = check.optional_whole(field, getattr(self, field))
            if value is not None and value < 1:
                raise check.refuse(field, value, "1 or more")

    @property
    def max_bytes(self) -> int | None:
        return None if self.max_memory_mb is None else self.max_memory_mb * 1024 * 1024


class ProcessDiedError(RuntimeError):
    """The process of a task ended during a run."""


def task_place(task: Task[..., Any]) -> TaskPlace:
    """Where a child finds a task. ConfigurationError if it cannot import the task."""
    function: Any = task.function
    name = getattr(function, "__qualname__", "<unnamed>")
    if "<" in name:
        raise ConfigurationError(
            f"task {task.name!r} cannot run in a process: a child cannot import {name}",
            hint="Define it at the top level of a module.",
        )
    clients = task._clients
    return TaskPlace(function.__module__, name, clients.dsn, clients.around_child_call)


class Processes:
    """The children of one worker for one queue, by task."""

    def __init__(self) -> None:
        self._idle: dict[str, list[_Child]] = {}
        self._busy: set[_Child] = set()
        self._closed = False

    async def call(
        self, task: Task[..., Any], run: Run, limits: ProcessLimits, reports: Reports | None = None
    ) -> Answer:
        """How a run in a child ended. If the run is cancelled, the child is killed."""
        idle = self._idle.setdefault(task.name, [])
        child = idle.pop() if idle else _Child(task_place(task))
        self._busy.add(child)
        try:
            answer = await child.call(run, limits, reports)
        except BaseException:
            child.kill()
            raise
        finally:
            self._busy.discard(child)
        if self._closed or child.is_worn_out(limits, answer):
            child.close()
        else:
            idle.append(child)
        return answer

    def close(self) -> None:
        """End the children. Idle children exit, busy children are killed."""
        self._closed = True
        for children in self._idle.values():
            for child in children:
                child.close()
        self._idle.clear()
        for child in list(self._busy):
            child.kill()


class _Child:
    """One process, and our end of the pipe to it."""

    def __init__(self, place: TaskPlace) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._runs = 0
        self._process: BaseProcess = _CONTEXT.Process(
            target=serve, args=(theirs, place), name=f"penstock {place.name}", daemon=True
        )
        self._process.start()
        theirs.close()

    async def call(self, run: Run, limits: ProcessLimits, reports: Reports | None) -> Answer:
        self._runs += 1
        with suppress(BrokenPipeError):  # it has ended: the answer says so
            self._pipe.send(run)
        while not isinstance(said := await self._next(limits), Answer):
            if reports is not None:
                for report in said:
                    reports.add(report)
        return said

    async def _next(self, limits: ProcessLimits) -> Said:
        """The next message of the child: reports of its task, or, at the end, its answer."""
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        number = self._pipe.fileno()
        loop.add_reader(number, _set, readable)
        try:
            await self._readable(readable, limits)
        finally:
            loop.remove_reader(number)
        return self._receive(self._pipe)

    async def _readable(self, readable: asyncio.Future[None], limits: ProcessLimits) -> None:
        limit = limits.max_bytes
        if limit is None:
            await readable
            return
        while not readable.done():
            await asyncio.wait([readable], timeout=_LOOK_SECONDS)
            if not readable.done() and _used_bytes(self._process.pid) > limit:
                raise MemoryError(f"the task used more than {limits.max_memory_mb} MB")

    def _receive(self, pipe: Connection) -> Said:
        try:
            said: Said = pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(1)
            code = self._process.exitcode
            how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
            raise ProcessDiedError(f"the process of the task ended {how}") from None
        return said

    def is_worn_out(self, limits: ProcessLimits, answer: Answer) -> bool:
        too_large = limits.max_bytes is not None and answer.peak_bytes > limits.max_bytes
        return too_large or (limits.max_tasks is not None and self._runs >= limits.max_tasks)

    def close(self) -> None:
        """Let the child exit: it is idle, and notices that the pipe is closed."""
        self._pipe.close()

    def kill(self) -> None:
        with suppress(ValueError):  # closed already
            self._process.kill()
        self._pipe.close()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _used_bytes(pid: int | None) -> int:
    """The memory that a process uses now, or 0 if the system does not report it (not Linux)."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
