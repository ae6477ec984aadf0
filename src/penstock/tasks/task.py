"""A task: a function, the queue that carries its calls, and how to call it through that queue."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, Unpack

from penstock.commands import arguments as check
from penstock.commands import write
from penstock.commands.arguments import UNSET
from penstock.commands.command import Command
from penstock.commands.payload import JsonText
from penstock.commands.write.enqueueing import json_message
from penstock.errors import ConfigurationError
from penstock.model.message import MessageOptions, NewMessage, OnConflict, Unique
from penstock.tasks.call import Call
from penstock.tasks.clients import AppClients
from penstock.tasks.context import enqueue_with_ack
from penstock.tasks.handle import Handle

if TYPE_CHECKING:
    from penstock.tasks.arguments import Arguments
    from penstock.tasks.returns import Returns

P = ParamSpec("P")
R = TypeVar("R")

TASK_HEADER: Final = "penstock-task"
_OPTIONS: Final = frozenset(MessageOptions.__annotations__)
# What options() takes.
_ALL_OPTIONS: Final = _OPTIONS | {"on_conflict", "unique", "connection"}
# What Celery calls them.
_CELERY_NAMES: Final = {"countdown": "delay", "eta": "visible_at", "expires": "ttl"}


class Task(Generic[P, R]):
    """A function that can be called through a queue. `@app.task()` makes one.

        await send_welcome.enqueue(user_id)
        await send_welcome.options(delay=60, connection=session).enqueue(user_id)

    Calling the task itself calls the function in this process.

    Attributes:
        name: The name of the task in messages.
        queue: The queue that carries its calls.
        function: The function.
    """

    def __init__(
        self,
        name: str,
        queue: str,
        function: Callable[P, Any],
        arguments: Arguments,
        returns: Returns,
        clients: AppClients,
        options: MessageOptions,
    ) -> None:
        self.name = name
        self.queue = queue
        self.function = function
        self.arguments = arguments
        self.returns = returns
        self._clients = clients
        self._options = options
        self._on_conflict: OnConflict = "replace"
        self._unique: Unique = "waiting"
        self._connection: Any = UNSET
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<Task {self.name} on {self.queue}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function(*args, **kwargs)

    def options(
        self,
        *,
        on_conflict: OnConflict | None = None,
        unique: Unique | None = None,
        connection: Any = UNSET,
        **options: Unpack[MessageOptions],
    ) -> Self:
        """Return the same task with other options for its messages.

        Args:
            on_conflict: What to do if the key is taken, as in `Client.enqueue`.
            unique: The messages that the key is compared with, as in `Client.enqueue`.
            connection: A connection or session of the caller, in whose transaction to enqueue.
            options: `key`, `priority`, `group`, `delay`, `visible_at`, `ttl`, `headers` and
                `max_attempts`, as in `Client.enqueue`.

        Raises:
            ConfigurationError: There is no such option.
        """
        for name in options.keys() - _OPTIONS:
            raise _unknown_option(name)
        changed = copy.copy(self)
        changed._options = {**self._options, **options}
        changed._on_conflict = on_conflict or self._on_conflict
        changed._unique = unique or self._unique
        changed._connection = self._connection if connection is UNSET else connection
        return changed

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a call of the function.

        Args:
            args: The positional arguments of the call.
            kwargs: The keyword arguments of the call, and options by name, such as `delay=60`. A
                parameter of the function comes first. Type checkers know options in `options()`
                alone.

        Returns:
            A handle, by which to wait for the result or to cancel the call.

        Raises:
            TaskArgumentsError: The arguments do not fit the signature of the function.
        """
        task, given = self._with_options(kwargs)
        command = task._command(args, given)
        return Handle(await self._clients.async_client.run(command, task._connection), self)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """As `enqueue`, for code that is not async.

        Args:
            args: The positional arguments of the call.
            kwargs: The keyword arguments of the call.
        """
        task, given = self._with_options(kwargs)
        command = task._command(args, given)
        return Handle(self._clients.sync_client.run(command, task._connection), self)

    def enqueue_with_ack(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Enqueue a call together with the ack of the running handler.

        The call, the ack and the result of the handler are committed together. If the handler
        fails, the call is not enqueued.

        Args:
            args: The positional arguments of the call.
            kwargs: The keyword arguments of the call.

        Raises:
            PenstockError: No handler is running here.
        """
        task, given = self._with_options(kwargs)
        enqueue_with_ack([task._json_message(args, given)])

    def handle(self, id: int) -> Handle[R]:
        """Return the handle of a call that was enqueued earlier.

        Args:
            id: The id of its message.
        """
        return Handle(check.whole("id", id, check.INT8), self)

    def message(self, *args: P.args, **kwargs: P.kwargs) -> NewMessage:
        """Return the message of a call, for `enqueue_many` on the queue of the task.

        Args:
            args: The positional arguments of the call.
            kwargs: The keyword arguments of the call.
        """
        task, given = self._with_options(kwargs)
        task._check_no_connection()
        return NewMessage(task.arguments.encode(args, given), **task._message_options())

    def _with_options(self, kwargs: dict[str, Any]) -> tuple[Self, dict[str, Any]]:
        """The task with the options among these arguments, and the arguments of the function."""
        names = self.arguments.unknown(_ALL_OPTIONS & kwargs.keys()) if kwargs else None
        if not names:
            return self, kwargs
        options = {name: kwargs[name] for name in names}
        return self.options(**options), {n: v for n, v in kwargs.items() if n not in options}

    def _command(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Command[int]:
        return self._enqueue(self.arguments.encode(args, kwargs))

    def _enqueue(self, payload: JsonText) -> Command[int]:
        return write.enqueue(
            self.queue,
            payload,
            on_conflict=self._on_conflict,
            unique=self._unique,
            **self._message_options(),
        )

    def s(self, *args: Any, **kwargs: Any) -> Call[R]:
        """Return a call for a chain, a group or a batch.

        Args:
            args: The positional arguments. In a chain, leave out the first one, which is the result
                of the previous step.
            kwargs: The keyword arguments.
        """
        task, given = self._with_options(kwargs)
        return Call(task, args, given, takes_previous=True)

    def si(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """As `s`, but the call does not get the result of the previous step.

        Args:
            args: All positional arguments.
            kwargs: All keyword arguments.
        """
        task, given = self._with_options(kwargs)
        return Call(task, args, given, takes_previous=False)

    def _json_message(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The parameters of `penstock.enqueue`, as JSON has them."""
        return self._json_parameters(self.arguments.encode(args, kwargs))

    def _json_parameters(self, payload: JsonText) -> dict[str, Any]:
        self._check_no_connection()
        return json_message(self._enqueue(payload))

    def _check_no_connection(self) -> None:
        """A call that others enqueue would silently leave the transaction of its connection."""
        if self._connection is not UNSET:
            raise ConfigurationError(
                f"the connection of this call of task {self.name!r} would not be used",
                hint="Give it to enqueue(connection=...) of the chain, group or batch, or to the"
                " call that enqueues the message. enqueue_with_ack() takes none.",
            )

    def _message_options(self) -> MessageOptions:
        headers = {**(self._options.get("headers") or {}), TASK_HEADER: self.name}
        return {**self._options, "headers": headers}


class AsyncTask(Task[P, R]):
    """A task whose function is async."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        result: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return result


class SyncTask(Task[P, R]):
    """A task whose function is not async."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.function(*args, **kwargs)
        return result


def _unknown_option(name: str) -> ConfigurationError:
    near = difflib.get_close_matches(name, _OPTIONS, 1)
    meant = _CELERY_NAMES.get(name) or (near[0] if near else None)
    return ConfigurationError(
        f"a task has no option {name!r} for its messages",
        hint=f"Did you mean {meant!r}?" if meant else f"There are: {', '.join(sorted(_OPTIONS))}.",
    )
