"""Checks one service: whether it can be reached, its versions, its clock, and our roles on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection

from penstock.commands import read
from penstock.commands.command import Command
from penstock.db.async_plain_execute import execute
from penstock.db.execute import sever
from penstock.errors import PenstockError, translated
from penstock.model.queue import Queue
from penstock.model.service import Service
from penstock.sql.loader import load_query

# Less than the 5 seconds within which every call answers.
CHECK_SECONDS: Final = 3.5
Run = Callable[[Command[Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state that a service reported. `schema_version` is None if it has no schema yet."""

    version: str
    schema_version: int | None
    clock_difference_seconds: float
    user: str
    roles: list[str]
    may_migrate: bool
    is_standby: bool

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The state of a service and its queues, or the error."""

    state: ServiceState | None
    error: str | None
    queues: list[Queue] | None = None


async def check_service(conninfo: str, now: Callable[[], datetime]) -> CheckResult:
    """Connect, ask, and disconnect, in a bounded time. Errors are part of the result.

    `now` is the clock that the service's clock is compared with.
    """
    opened: list[AsyncConnection[Any]] = []
    asking = asyncio.create_task(_ask(conninfo, now, opened))
    done, _ = await asyncio.wait({asking}, timeout=CHECK_SECONDS)
    if not done:
        for connection in opened:
            sever(connection)
        if not opened:
            asking.cancel()
        with suppress(PenstockError, psycopg.Error, asyncio.CancelledError):
            await asking
        return CheckResult(None, f"no response within {CHECK_SECONDS:g} s")
    try:
        state, queues = asking.result()
    except (PenstockError, psycopg.Error, OSError) as error:
        return CheckResult(None, error_text(error))
    return CheckResult(state, None, queues)


def own_clock() -> datetime:
    """The clock of this server, for checks whose result is not stored."""
    return datetime.now(UTC)


def error_text(error: Exception) -> str:
    """The error in one line."""
    text = error.message if isinstance(error, PenstockError) else str(error)
    return " ".join(text.split()) or type(error).__name__


async def _ask(
    conninfo: str, now: Callable[[], datetime], opened: list[AsyncConnection[Any]]
) -> tuple[ServiceState, list[Queue] | None]:
    with translated():
        connection = await AsyncConnection.connect(conninfo, autocommit=True)
    opened.append(connection)
    async with connection:

        async def run(command: Command[Any]) -> Any:
            return command.decode(await execute(connection, command, command.sql))

        state = await _state(run, now)
        queues: list[Queue] | None = None
        if state.schema_version is not None:
            # A role that may not read the queues is part of the answer, not an error.
            with suppress(PenstockError, psycopg.Error):
                queues = await run(read.queues())
        return state, queues


async def with_own_state(service: Service, run: Run) -> Service:
    """The service with its state now if it is the database of the server, which `run` reaches."""
    if service.dsn is not None:
        return service
    state = await _state(run, own_clock)
    return replace(service, checked_at=own_clock(), status=state.document())


async def _state(run: Run, now: Callable[[], datetime]) -> ServiceState:
    before = now()
    [found] = await run(_STATUS)
    after = now()
    version, user, _, clock, has_schema, is_standby, roles, may_migrate = found
    difference = (clock - (before + (after - before) / 2)).total_seconds()
    return ServiceState(
        version=version,
        schema_version=await run(read.schema_version()) if has_schema else None,
        clock_difference_seconds=round(difference, 3),
        user=user,
        roles=list(roles),
        may_migrate=may_migrate,
        is_standby=is_standby,
    )


_STATUS: Final = Command(load_query("read/service_status"), {}, lambda rows: rows)
