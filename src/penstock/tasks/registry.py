"""The tasks of an application, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar, overload

from penstock.commands import arguments as check
from penstock.errors import ConfigurationError
from penstock.model.message import MessageOptions
from penstock.tasks.clients import AppClients
from penstock.tasks.task import AsyncTask, SyncTask, Task

if TYPE_CHECKING:
    from penstock.tasks.codec import Codec

P = ParamSpec("P")
R = TypeVar("R")

_NAME: Final = re.compile(r"[\w.:-]{1,128}", re.ASCII)


class TaskDecorator(Protocol):
    """Makes a task of a function. Its result is what the function returns, awaited if async."""

    # An async function matches both, and the first one counts.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...


class TaskRegistry(Mapping[str, Task[..., Any]]):
    """Makes tasks, and finds them by name."""

    def __init__(self, clients: AppClients) -> None:
        self.clients = clients
        self._tasks: dict[str, Task[..., Any]] = {}

    @cached_property
    def codec(self) -> Codec:
        try:
            from penstock.tasks.codec import Codec
        except ModuleNotFoundError as error:
            if error.name != "msgspec":
                raise
            raise ConfigurationError(
                "tasks need msgspec, which is not installed",
                hint="Install it with: pip install 'penstock[tasks]'",
            ) from None
        return Codec()

    def make(
        self,
        function: Callable[..., Any],
        queue: str,
        name: str | None,
        options: MessageOptions,
        keep_seconds: int | None,
        *,
        is_async: bool,
    ) -> Task[..., Any]:
        """A new task. ConfigurationError if another one has its name."""
        name = getattr(function, "__name__", None) if name is None else name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise check.refuse("name", name, "1 to 128 of letters, digits, _ . : and -")
        if name in self._tasks:
            raise ConfigurationError(
                f"task {name!r} already exists: {_path(self._tasks[name].function)}",
                hint=f"Give {_path(function)} another name: @app.task(name=...).",
            )
        from penstock.tasks.arguments import Arguments
        from penstock.tasks.returns import Returns

        kind: type[Task[..., Any]] = AsyncTask if is_async else SyncTask
        return kind(
            name,
            queue,
            function,
            Arguments(name, function, self.codec),
            Returns(name, function, self.codec, keep_seconds),
            self.clients,
            options,
        )

    def add(self, task: Task[..., Any]) -> None:
        self._tasks[task.name] = task

    def prepare(self, dsn: str) -> None:
        """Resolve all annotations, and enqueue at this DSN unless the app has its own."""
        for task in self._tasks.values():
            task.arguments.resolve()
            task.returns.resolve()
        if self.clients.dsn is None:
            self.clients.dsn = dsn

    def __getitem__(self, name: str) -> Task[..., Any]:
        return self._tasks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


def _path(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', repr(function))}"
