"""One request as a handler gets it, and the ways to answer it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from starlette.types import Receive
from starlette.types import Scope as AsgiScope

from penstock.commands.write import Command
from penstock.db.async_connections import AnyConnection
from penstock.errors import QueueNotFoundError
from penstock.model.access import Scope
from penstock.server.auth.principal import Principal
from penstock.server.context import Context
from penstock.server.transport.exchange import Exchange
from penstock.server.transport.protocol import is_gone

T = TypeVar("T")


@dataclass(slots=True)
class Reply:
    """An answer other than the default. Not frozen: there is one for each request, and frozen
    dataclasses take three times as long to create."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"


class Call:
    """One request, parsed and checked."""

    __slots__ = (
        "body",
        "connection",
        "context",
        "exchange",
        "path",
        "principal",
        "query",
        "raw",
        "receive",
        "scope",
    )

    def __init__(
        self, context: Context, scope: AsgiScope, receive: Receive, principal: Principal
    ) -> None:
        self.context = context
        self.receive = receive
        self.scope = scope
        self.exchange: Exchange = scope["exchange"]
        self.principal = principal
        self.path: Mapping[str, str] = scope["path_params"]
        self.query: Any = None
        self.body: Any = None
        self.raw = b""
        # The transaction of a call with an Idempotency-Key. All its commands run in it.
        self.connection: AnyConnection | None = None

    @property
    def caller(self) -> Hashable:
        """The connection of the caller."""
        return self.scope["client"]  # type: ignore[no-any-return]  # ASGI says a host and a port

    @property
    def is_gone(self) -> bool:
        """Whether the caller has closed its connection."""
        return is_gone(self.scope)

    def header(self, name: str) -> str | None:
        return header(self.scope, name)

    async def run(self, command: Command[T]) -> T:
        return await self.context.database.run(command, self.connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AnyConnection]:
        """A connection with a transaction, which is committed as a whole or not at all."""
        if self.connection is not None:
            yield self.connection
            return
        async with self.context.database.transaction() as connection:
            yield connection

    async def act(self, command: Command[T], act: str, target: str | None, **details: Any) -> T:
        """Run the command of an operator and record it, in one transaction."""
        note = self.context.activity(self.principal, self.exchange, act, target, **details)
        async with self.transaction() as connection:
            done = await self.context.database.run(command, connection)
            await self.context.database.run(note, connection)
        return done

    async def note(self, act: str, target: str | None, **details: Any) -> None:
        """Record an action that consists of several commands."""
        await self.run(self.context.activity(self.principal, self.exchange, act, target, **details))

    def require(self, scope: Scope, queue: str) -> None:
        self.principal.require(scope, queue)

    def require_of(self, what: str, scope: Scope, queue: str) -> None:
        self.principal.require_of(what, scope, queue)


class Pending(NamedTuple):
    """A request under way: the future that it waits for, and what makes an answer of its result.

    `without_queue` answers instead where the future ends with QueueNotFoundError.
    """

    future: asyncio.Future[Any]
    finish: Callable[[Call, Any], Any]
    without_queue: Callable[[Call, QueueNotFoundError], Awaitable[Any]] | None = None


def header(scope: AsgiScope, name: str) -> str | None:
    """The value of a header by its name in lower case; of several, the first."""
    exchange: Exchange = scope["exchange"]
    found = exchange.headers.get(name.encode())
    return None if found is None else found.decode("latin-1")
