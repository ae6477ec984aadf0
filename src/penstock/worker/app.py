"""The application: its handlers, tasks and schedules, and the wrappers around the handlers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

from penstock.commands import arguments as check
from penstock.errors import ConfigurationError
from penstock.model.message import Duration, MessageOptions
from penstock.model.schedule import Missed
from penstock.tasks.batch import BatchHandle
from penstock.tasks.clients import AppClients
from penstock.tasks.registry import TaskDecorator, TaskRegistry
from penstock.tasks.schedule import DeclaredSchedules, declared
from penstock.tasks.task import Task
from penstock.worker.app_arguments import (
    attempts_of,
    calling_module,
    concurrency_of,
    handler_function,
    is_async_function,
    keep_seconds,
    lease_seconds_of,
    priority_of,
    queue_name,
    retry_policy,
    task_function,
    timeout_seconds,
    ttl_of,
)
from penstock.worker.delivery import Delivery
from penstock.worker.handlers import Call, Function, Handler, QueueHandlers
from penstock.worker.processes import ProcessLimits, task_place
from penstock.worker.retry import RetryPolicy
from penstock.worker.task_handlers import (
    async_handler,
    process_handler,
    sync_handler,
)

Middleware: TypeAlias = Callable[[Delivery, Call], Coroutine[Any, Any, Any]]
F = TypeVar("F", bound=Function)
M = TypeVar("M", bound=Middleware)
T = TypeVar("T")


class App:
    """The handlers and tasks of an application, by queue.

        app = App()

        @app.task(queue="emails")
        async def send(address: str) -> None: ...

        @app.handler("orders")
        async def ship(message):
            await pack(message.payload["items"])

    `penstock worker module:app` or `Worker(app)` runs them.

    Args:
        dsn: The database into which tasks are enqueued. The default is that of a client.
        name: The name of the application, which marks its schedules. The default is the name of
            the module that makes the App.
    """

    managed_by: ClassVar[str | None] = None
    """For subclasses: what to run instead of `penstock worker` and `penstock schedule sync`."""

    def __init__(self, dsn: str | None = None, *, name: str | None = None) -> None:
        self._name = calling_module() if name is None else name
        self._queues: dict[str, QueueHandlers] = {}
        self._middleware: list[Middleware] = []
        self._tasks = TaskRegistry(self._make_clients(dsn))
        self._schedules = DeclaredSchedules(lambda: self.name)

    def handler(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        lease_seconds: Duration | None = None,
        retry: RetryPolicy | None = None,
    ) -> Callable[[F], F]:
        """Register the decorated function as the handler of a queue.

        The function has one argument, a `Delivery`. An async function runs on the event loop, any
        other function in a thread.

        Args:
            queue: The name of the queue. `<queue>.dlq` serves its dead letters.
            concurrency: The number of messages that are handled at once. The default is the
                worker's.
            timeout: The time after which a run is cancelled and counts as failed. The default is
                none.
            lease_seconds: The duration of leases, which are extended while the handler runs. The
                default is the setting of the queue.
            retry: What happens after a failure. The default is the backoff of the queue.

        Returns:
            A decorator that returns the function unchanged.

        Raises:
            ConfigurationError: The queue has a handler, or the function is none.
            InvalidValueError: An argument has the wrong type or is out of range.
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
            is_async = is_async_function(function)
            checked = handler_function(function)
            return Handler(
                queue=queue_name(queue),
                function=checked if is_async else self._in_thread(checked),
                is_async=is_async,
                concurrency=None if concurrency is None else concurrency_of(concurrency),
                timeout=timeout_seconds(timeout),
                lease_seconds=lease_seconds_of(lease_seconds),
                retry=retry_policy(retry),
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
        """Make the decorated function a task. Call it by `await function.enqueue(...)`.

        A queue can carry any number of tasks. Tasks need `penstock[tasks]`.

        Args:
            queue: The queue that carries the calls.
            name: The name of the task in messages. The default is the name of the function.
            retry: A number of attempts, or a RetryPolicy. The default is the backoff of the queue.
            timeout: The time after which a run is cancelled and counts as failed. The default is
                none.
            concurrency: The number of messages of the queue that are handled at once. The default
                is the worker's.
            lease_seconds: The duration of leases. The default is the setting of the queue.
            priority: The priority of the messages, -9 to 9.
            ttl: The time after which a call expires if it has not been delivered.
            keep_result: How long the result can be fetched. True is one day, False not at all.
            process: True runs the task in a separate process, which is killed after `timeout`. A
                ProcessLimits sets the lifetime of that process as well.

        Returns:
            A decorator that returns the Task.

        Raises:
            ConfigurationError: A task has this name, or an argument of the function has no usable
                type.
            InvalidValueError: An argument has the wrong type or is out of range.
        """

        def register(function: Callable[..., Any]) -> Task[..., Any]:
            options: MessageOptions = {"priority": priority_of(priority), "ttl": ttl_of(ttl)}
            if isinstance(retry, int):
                options["max_attempts"] = attempts_of(retry)
            keep = keep_seconds(keep_result)
            is_async = is_async_function(function)
            made = self._tasks.make(
                task_function(function), queue_name(queue), name, options, keep, is_async=is_async
            )
            is_async = is_async or bool(process)
            run = _task_handler(made, is_async, process)
            self._served(queue).tasks[made.name] = Handler(
                queue=queue,
                function=run if is_async else self._in_thread(run),
                is_async=is_async,
                concurrency=None if concurrency is None else concurrency_of(concurrency),
                timeout=timeout_seconds(timeout),
                lease_seconds=lease_seconds_of(lease_seconds),
                retry=retry_policy(None if isinstance(retry, int) else retry),
                keeps_result=keep is not None,
                task=made,
            )
            self._tasks.add(made)
            return made

        return cast(TaskDecorator, register)

    def register_type(
        self, type_: type[T], *, encode: Callable[[T], Any], decode: Callable[[Any], T]
    ) -> None:
        """Let arguments and results of tasks have another type.

        Args:
            type_: The class.
            encode: A function that converts an object to a value of a supported type.
            decode: A function that converts that value back.
        """
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
        """Enqueue calls of a task at the times of a cron rule, or periodically.

            @app.schedule(every=timedelta(seconds=30))
            @app.task(queue="reports")
            async def refresh() -> None: ...

        A worker creates the schedule in the database when it starts, or changes the existing one.

        Args:
            cron: The rule. Give either `cron` or `every`.
            every: The period, from one second to 365 days.
            timezone: The time zone of the rule.
            name: The name of the schedule. The default is the name of the task.
            args: The positional arguments of the calls.
            kwargs: The keyword arguments of the calls.
            missed: What to do about fires that were due while nothing ran, as in `create_schedule`.

        Returns:
            A decorator that returns the task unchanged.
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
    def name(self) -> str:
        """The name of the application."""
        return self._name

    @property
    def schedules(self) -> DeclaredSchedules:
        """The schedules that the code declares."""
        return self._schedules

    def batch(self, id: int) -> BatchHandle:
        """Return the handle of a batch that was enqueued earlier.

        Args:
            id: The id of the batch.
        """
        return BatchHandle(check.whole("id", id, check.INT8), self._tasks.clients)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks by name."""
        return self._tasks

    def prepare(self, dsn: str) -> None:
        """Check the types of all tasks. A worker calls it when it starts.

        Args:
            dsn: The database of the worker. Tasks are enqueued there unless the app has its own
                DSN.

        Raises:
            ConfigurationError: An argument or the result of a task has a type that cannot be
                encoded.
        """
        self._tasks.prepare(dsn)

    async def close(self) -> None:
        """Close the connections that enqueues of tasks have opened."""
        await self._tasks.clients.close()

    def close_sync(self) -> None:
        """As `close`, for applications without an event loop."""
        self._tasks.clients.close_sync()

    def middleware(self, function: M) -> M:
        """Wrap every handler with the decorated function, including handlers in threads.

        Args:
            function: An async function with the arguments `delivery` and `call_next`. The first one
                registered is the outermost.

        Returns:
            The function, unchanged.
        """
        if not is_async_function(function):
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
        """Return a handler with the middleware around it. The worker calls it.

        Args:
            call: The handler.
        """
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


def _task_handler(task: Task[..., Any], is_async: bool, process: bool | ProcessLimits) -> Function:
    if process is False:
        return async_handler(task) if is_async else sync_handler(task)
    limits = ProcessLimits() if process is True else process
    if not isinstance(limits, ProcessLimits):
        raise check.refuse("process", process, "True, False or ProcessLimits")
    task_place(task)
    return process_handler(task, limits)


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", repr(function))
