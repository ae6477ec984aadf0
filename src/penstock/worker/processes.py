"""Child processes for tasks that can be killed and must not share the worker's process.

A child is started at the first use, runs one call at a time, and is kept for the next one. It is
spawned, not forked: a fork of a process with threads and open connections may hang.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, cast

from penstock.commands import arguments as check
from penstock.errors import ConfigurationError
from penstock.tasks.task import Task
from penstock.worker.process_child import Answer, Run, Said, TaskPlace, serve
from penstock.worker.progress import Reports
from penstock.worker.threads import Threads

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
        max_processes: The largest number of processes of the task in a worker. Other runs wait for
            one of them. None means one for each run.
    """

    max_tasks: int | None = None
    max_memory_mb: int | None = None
    # Not the number of cores by default: a task that waits for another call of itself would never
    # end on a machine with one core.
    max_processes: int | None = None

    def __post_init__(self) -> None:
        for field in ("max_tasks", "max_memory_mb", "max_processes"):
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
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._threads = Threads("penstock-process", _nothing, _nothing)
        self._closed = False

    def slot(self, task: Task[..., Any], limits: ProcessLimits) -> asyncio.Semaphore:
        """What a run holds while it has a process, in the order of the runs."""
        slot = self._slots.get(task.name)
        if slot is None:
            most = limits.max_processes or sys.maxsize
            slot = self._slots[task.name] = asyncio.Semaphore(most)
        return slot

    async def call(
        self, task: Task[..., Any], run: Run, limits: ProcessLimits, reports: Reports | None = None
    ) -> Answer:
        """How a run in a child ended. If the run is cancelled, the child is killed."""
        idle = self._idle.setdefault(task.name, [])
        child = idle.pop() if idle else _Child(task_place(task), self._threads)
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
        self._threads.close()


class _Child:
    """One process, and our end of the pipe to it.

    Threads send and receive. A call that does not fit into the pipe is taken only when the child
    has imported its modules, and the event loop must not wait for that.
    """

    def __init__(self, place: TaskPlace, threads: Threads) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._threads = threads
        self._runs = 0
        self._lock = threading.Lock()  # of the two fields below
        self._is_open = True
        self._in_use = False
        self._process: BaseProcess = _CONTEXT.Process(
            target=serve, args=(theirs, place), name=f"penstock {place.name}", daemon=True
        )
        self._process.start()
        theirs.close()

    async def call(self, run: Run, limits: ProcessLimits, reports: Reports | None) -> Answer:
        self._runs += 1
        said = await self._within(limits, self._exchange, run)
        while not isinstance(said, Answer):
            if reports is not None:
                for report in said:
                    reports.add(report)
            said = await self._within(limits, self._exchange, None)
        return said

    async def _within(
        self, limits: ProcessLimits, function: Callable[[Run | None], Said], run: Run | None
    ) -> Said:
        """Call the function in a thread. MemoryError if the child uses too much meanwhile."""
        call = self._threads.call(function, run)
        limit = limits.max_bytes
        if limit is None:
            return cast(Said, await call)
        said: asyncio.Task[Said] = asyncio.create_task(call)
        try:
            while not said.done():
                await asyncio.wait([said], timeout=_LOOK_SECONDS)
                if not said.done() and _used_bytes(self._process.pid) > limit:
                    raise MemoryError(f"the task used more than {limits.max_memory_mb} MB")
            return said.result()
        finally:
            said.cancel()

    def _exchange(self, run: Run | None) -> Said:
        """Send a call, if there is one, and receive the next message of the child.

        The child sends reports of its task and, at the end, its answer.
        """
        with self._lock:
            if not self._is_open:
                raise ProcessDiedError("the process of the task was killed")
            self._in_use = True
        try:
            if run is not None:
                with suppress(BrokenPipeError, ConnectionResetError):  # receiving says so
                    self._pipe.send(run)
            return cast(Said, self._pipe.recv())
        except (EOFError, OSError):  # OSError: in the middle of its answer
            self._process.join(1)
            code = self._process.exitcode
            how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
            raise ProcessDiedError(f"the process of the task ended {how}") from None
        finally:
            self._release()

    def _release(self) -> None:
        with self._lock:
            self._in_use = False
            if not self._is_open:
                self._pipe.close()

    def is_worn_out(self, limits: ProcessLimits, answer: Answer) -> bool:
        too_large = limits.max_bytes is not None and answer.peak_bytes > limits.max_bytes
        return too_large or (limits.max_tasks is not None and self._runs >= limits.max_tasks)

    def close(self) -> None:
        """Let the child exit: it is idle, and notices that the pipe is closed."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
            if not self._in_use:
                self._pipe.close()
            elif was_open:
                # A thread closes it. Shut down, it wakes the thread even if a process that the
                # task has started keeps the other end open.
                pipe = socket.socket(fileno=os.dup(self._pipe.fileno()))
                with pipe, suppress(OSError):  # not connected: the child has ended
                    pipe.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        with suppress(ValueError):  # closed already
            self._process.kill()
        self.close()


def _nothing() -> None:
    pass


def _used_bytes(pid: int | None) -> int:
    """The memory that a process uses now, or 0 if the system does not report it (not Linux)."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
