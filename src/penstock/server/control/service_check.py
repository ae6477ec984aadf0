"""Checks one service: whether it can be reached, its versions, its clock, and our roles on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
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
from penstock.sql.loader import load_query

# Less than the 5 seconds within which every call answers.
CHECK_SECONDS: Final = 3.5


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
        before = now()
        [found] = await execute(connection, _STATUS, _STATUS.sql)
        after = now()
        version, user, _, clock, has_schema, is_standby, roles, may_migrate = found
        queues: list[Queue] | None = None
        schema_version = None
        if has_schema:
            schema_version = await _run(connection, read.schema_version())
            # A role that may not read the queues is part of the answer, not an error.
            with suppress(PenstockError, psycopg.Error):
                queues = await _run(connection, read.queues())
        difference = (clock - (before + (after - before) / 2)).total_seconds()
        state = ServiceState(
            version=version,
            schema_version=schema_version,
            clock_difference_seconds=round(difference, 3),
            user=user,
            roles=list(roles),
            may_migrate=may_migrate,
            is_standby=is_standby,
        )
        return state, queues


async def _run(connection: AsyncConnection[Any], command: Command[Any]) -> Any:
    return command.decode(await execute(connection, command, command.sql))


_STATUS: Final = Command(load_query("read/service_status"), {}, lambda rows: rows)
