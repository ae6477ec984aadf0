"""The registry: which handler serves which queue, and what is wrapped around it."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

from penstock.commands import arguments as check
from penstock.errors import ConfigurationError
from penstock.model.message import Duration
from penstock.model.schedule import Missed
from penstock.tasks.batch import BatchHandle
from penstock.tasks.clients import AppClients
from penstock.tasks.registry import TaskDecorator, TaskRegistry
from penstock.tasks.schedule import DeclaredSchedules, declared
from penstock.tasks.task import TASK_HEADER, MessageOptions, Task
from penstock.worker.delivery import Delivery
from penstock.worker.processes import ProcessLimits, task_place
from penstock.worker.retry import RetryPolicy
from penstock.worker.task_handlers import (
    UnknownTasks,
    async_handler,
    process_handler,
    sync_handler,
)

Function: TypeAlias = Callable[[Delivery], Any]
Call: TypeAlias = Callable[[Delivery], Coroutine[Any, Any, Any]]
Middleware: TypeAlias = Callable[[Delivery, Call], Coroutine[Any, Any, Any]]
F = TypeVar("F", bound=Function)
M = TypeVar("M", bound=Middleware)
T = TypeVar("T")

_QUEUE: Final = re.compile(r"[a-z0-9._-]{1,128}")
MAX_CONCURRENCY: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function and how it is to be run. None: what the worker says, or the queue."""

    queue: str
    function: Function
    is_async: bool
    concurrency: int | None
    timeout: float | None
    lease_seconds: int | None
    retry: RetryPolicy
    keeps_result: bool = False
    task: Task[..., Any] | None = None


class QueueHandlers:
    """What serves a queue: one handler for plain messages, tasks by name, or both."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.plain: Handler | None = None
        self.tasks: dict[str, Handler] = {}
        self._unknown = Handler(
            queue=queue,
            function=UnknownTasks(),
            is_async=True,
            concurrency=None,
            timeout=None,
            lease_seconds=None,
            retry=RetryPolicy(),
        )

    def on_thread_end(self) -> None:
        """For subclasses: called in each thread of its handlers, before the thread ends."""

    def __iter__(self) -> Iterator[Handler]:
        return iter([*([] if self.plain is None else [self.plain]), *self.tasks.values()])

    def find(self, delivery: Delivery) -> Handler:
        """The handler of a message."""
        if not self.tasks:
            return self.plain or self._unknown
        name = delivery.headers.get(TASK_HEADER)
        if name is None:
            return self.plain or self._unknown
        return self.tasks.get(name, self._unknown) if isinstance(name, str) else self._unknown

    @property
    def concurrency(self) -> int | None:
        """The largest that one of them states."""
        return max((each.concurrency for each in self if each.concurrency), default=None)

    @property
    def lease_seconds(self) -> int | None:
        """The longest that one of them states."""
        return max((each.lease_seconds for each in self if each.lease_seconds), default=None)


class App:
    """The handlers and tasks of an application, by queue.

        app = App()

        @app.task(queue="emails")
        async def send(address: str) -> None: ...

        @app.handler("orders")
        async def ship(message):
            await pack(message.payload["items"])

    `penstock worker module:app` runs them; so does `Worker(app)`. `dsn` is where tasks are
    enqueued. It is found like that of a client.
    """

    def __init__(self, dsn: str | None = None) -> None:
        self._queues: dict[str, QueueHandlers] = {}
        self._middleware: list[Middleware] = []
        self._tasks = TaskRegistry(self._make_clients(dsn))
        self._schedules = DeclaredSchedules()

    def handler(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        lease_seconds: Duration | None = None,
        retry: RetryPolicy | None = None,
    ) -> Callable[[F], F]:
        """Serve a queue with the decorated function, async or not; it is given a Delivery.

        `concurrency`: how many messages of the queue are worked on at once; `timeout`: after which
        a run has failed; `lease_seconds`: instead of the queue's own, extended while it runs.
        """

        def register(function: F) -> F:
            made = handler(function)
            served = self._served(made.queue)
            if served.plain is not None:
                raise ConfigurationError(
                    f"queue {queue!r} has a handler already: {_name(served.plain.function)}",
                    hint="A queue has one handler in a process; use tasks for several functions.",
                )
            served.plain = made
            return function

        def handler(function: Function) -> Handler:
            is_async = _is_async(function)
            checked = _function(function)
            return Handler(
                queue=_queue(queue),
                function=checked if is_async else self._in_thread(checked),
                is_async=is_async,
                concurrency=None if concurrency is None else _concurrency(concurrency),
                timeout=_timeout(timeout),
                lease_seconds=_lease_seconds(lease_seconds),
                retry=_retry(retry),
            )

        return register

    def task(
        self,
        *,
        queue: str,
        name: str | None = None,
        retry: int | RetryPolicy | None = None,
        timeout: Duration | None = None,
        concurrency: int | None = None,
        lease_seconds: Duration | None = None,
        priority: int = 0,
        ttl: Duration | None = None,
        keep_result: bool | Duration = False,
        process: bool | ProcessLimits = False,
    ) -> TaskDecorator:
        """Make a task of the decorated function, async or not: `await function.enqueue(...)`.

        A queue carries any number of tasks. `name` is the name of the function unless given.
        `retry` is a number of attempts, or a RetryPolicy. `timeout` ends a run. `priority` and
        `ttl` are those of its messages. `keep_result` is for how long its result can be fetched;
        True is one day. `process` runs it in its own process, which is killed when the time is
        over; ProcessLimits says how long such a process lives. Needs `penstock[tasks]`.
        """

        def register(function: Callable[..., Any]) -> Task[..., Any]:
            options: MessageOptions = {"priority": priority, "ttl": ttl}
            if isinstance(retry, int):
                options["max_attempts"] = check.whole("retry", retry)
            keep = _keep_seconds(keep_result)
            made = self._tasks.make(_task_function(function), _queue(queue), name, options, keep)
            is_async = _is_async(function) or bool(process)
            run = _task_handler(made, is_async, process)
            self._served(queue).tasks[made.name] = Handler(
                queue=queue,
                function=run if is_async else self._in_thread(run),
                is_async=is_async,
                concurrency=None if concurrency is None else _concurrency(concurrency),
                timeout=_timeout(timeout),
                lease_seconds=_lease_seconds(lease_seconds),
                retry=_retry(None if isinstance(retry, int) else retry),
                keeps_result=keep is not None,
                task=made,
            )
            return made

        return cast(TaskDecorator, register)

    def register_type(
        self, type_: type[T], *, encode: Callable[[T], Any], decode: Callable[[Any], T]
    ) -> None:
        """Teach tasks a type: `encode` returns a value of known types, `decode` reads it."""
        self._tasks.codec.register(type_, encode, decode)

    def schedule(
        self,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str = "UTC",
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        missed: Missed = "once",
    ) -> Callable[[T], T]:
        """Call a task by itself: at the times of a cron rule, or every so often.

            @app.schedule(every=timedelta(seconds=30))
            @app.task(queue="reports")
            async def refresh() -> None: ...

        A worker that starts brings the schedule into the database, or changes it there. `name` is
        that of the task unless given. `args` and `kwargs` are the arguments of the calls. `missed`
        is that of `create_schedule`.
        """

        def declare(task: T) -> T:
            if not isinstance(task, Task):
                raise check.refuse("schedule", task, "a task: put it above @app.task(...)")
            self._schedules.add(
                declared(task, name, cron, every, timezone, args, kwargs or {}, missed)
            )
            return task

        return declare

    @property
    def schedules(self) -> DeclaredSchedules:
        """The schedules that the code declares."""
        return self._schedules

    def batch(self, id: int) -> BatchHandle:
        """The handle of a batch that was enqueued earlier, by its id."""
        return BatchHandle(check.whole("id", id, check.INT8), self._tasks.clients)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks by name."""
        return self._tasks

    def prepare(self, dsn: str) -> None:
        """For a worker that starts: ConfigurationError if the types of a task are of no use.

        Tasks are enqueued where the worker claims, unless the app has its own DSN.
        """
        self._tasks.prepare(dsn)

    async def close(self) -> None:
        """Close the connections that enqueues of tasks have opened."""
        await self._tasks.clients.close()

    def close_sync(self) -> None:
        """As `close`, for applications without an event loop."""
        self._tasks.clients.close_sync()

    def middleware(self, function: M) -> M:
        """Wrap every handler, sync ones too: `async def around(delivery, call_next)`.

        The first one registered is the outermost.
        """
        if not _is_async(function):
            raise check.refuse("middleware", function, "an async function (delivery, call_next)")
        self._middleware.append(function)
        return function

    @property
    def queues(self) -> list[str]:
        return list(self._queues)

    def __iter__(self) -> Iterator[QueueHandlers]:
        return iter(self._queues.values())

    def __getitem__(self, queue: str) -> QueueHandlers:
        try:
            return self._queues[queue]
        except KeyError:
            raise self._unknown(queue) from None

    def wrap(self, call: Call) -> Call:
        """The middleware around a handler."""
        for each in reversed(self._middleware):
            call = _around(each, call)
        return call

    def _make_clients(self, dsn: str | None) -> AppClients:
        """For subclasses: where tasks are enqueued."""
        return AppClients(dsn)

    def _in_thread(self, function: Function) -> Function:
        """For subclasses: a handler that runs in a thread, with work before and after it."""
        return function

    def _served(self, queue: str) -> QueueHandlers:
        return self._queues.setdefault(queue, QueueHandlers(queue))

    def _unknown(self, queue: str) -> ConfigurationError:
        near = difflib.get_close_matches(queue, self._queues, 1)
        known = ", ".join(self._queues) or "none"
        meant = f"Did you mean {near[0]!r}?" if near else f"There are handlers for: {known}."
        return ConfigurationError(f"there is no handler for queue {queue!r}", hint=meant)


def _around(middleware: Middleware, call: Call) -> Call:
    return lambda delivery: middleware(delivery, call)


def _queue(queue: Any) -> str:
    if not isinstance(queue, str) or not _QUEUE.fullmatch(queue):
        allowed = "the name of a queue: 1 to 128 lowercase letters, digits, -, _ and ."
        raise check.refuse("queue", queue, allowed)
    return queue


def _function(function: Any) -> Function:
    if not callable(function):
        raise check.refuse("handler", function, "a function that takes one delivery")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise check.refuse("handler", function, "a function without yield")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise check.refuse("handler", function, "a function that takes one delivery") from None
    except ValueError:  # a builtin that does not tell
        pass
    return function  # type: ignore[no-any-return]


def _task_handler(task: Task[..., Any], is_async: bool, process: bool | ProcessLimits) -> Function:
    if process is False:
        return async_handler(task) if is_async else sync_handler(task)
    limits = ProcessLimits() if process is True else process
    if not isinstance(limits, ProcessLimits):
        raise check.refuse("process", process, "True, False or ProcessLimits")
    task_place(task)
    return process_handler(task, limits)


def _keep_seconds(value: bool | Duration) -> int | None:
    if isinstance(value, bool):
        return 86_400 if value else None
    seconds = check.whole_seconds("keep_result", value)
    if seconds is None or not 1 <= seconds <= 315_360_000:
        raise check.refuse("keep_result", value, "True, False, or 1 second to 10 years")
    return seconds


def _task_function(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise check.refuse("task", function, "a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise check.refuse("task", function, "a function without yield")
    return function  # type: ignore[no-any-return]


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - is it async, not: is it there
    )


def _concurrency(value: Any) -> int:
    if not 1 <= check.whole("concurrency", value) <= MAX_CONCURRENCY:
        raise check.refuse("concurrency", value, f"1 to {MAX_CONCURRENCY}")
    return int(value)


def _timeout(value: Duration | None) -> float | None:
    if value is None:
        return None
    seconds = check.duration("timeout", value).total_seconds()
    if seconds <= 0:
        raise check.refuse("timeout", value, "more than 0 seconds")
    return seconds


def _lease_seconds(value: Duration | None) -> int | None:
    seconds = check.whole_seconds("lease_seconds", value)
    if seconds is not None and not 1 <= seconds <= 43_200:
        raise check.refuse("lease_seconds", value, "1 to 43200 seconds")
    return seconds


def _retry(value: Any) -> RetryPolicy:
    if value is None:
        return RetryPolicy()
    if not isinstance(value, RetryPolicy):
        raise check.refuse("retry", value, "a number of attempts or a RetryPolicy")
    return value


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", repr(function))
