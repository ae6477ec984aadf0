"""Errors of database drivers as errors of Penstock.

The module imports no driver. It recognises database errors by their SQLSTATE, so code on asyncpg or
SQLAlchemy can use `from_database_error` too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from penstock.errors.classes import (
    ConnectionLimitError,
    DatabaseFullError,
    DatabaseReadOnlyError,
    DatabaseUnavailableError,
    InvalidValueError,
    LoginRefusedError,
    PayloadNotStorableError,
    PenstockError,
    PermissionDeniedError,
    PoolerModeError,
    QueryCancelledError,
    SchemaMissingError,
    TransactionConflictError,
)
from penstock.errors.table import ERRORS

CHECK_DSN: Final = (
    "Check that PostgreSQL is running and that PENSTOCK_DSN, DATABASE_URL or --dsn points to it."
)
MIGRATE: Final = "Run `penstock migrate up` on this database."

GRANT: Final = "Grant the user one of penstock_producer, penstock_consumer or penstock_operator."
RESOURCES: Final = (
    "Try again later. If that does not help, check the settings and the log of the server."
)
POOLER: Final = (
    "A pooler in transaction mode is between the client and the database. Use "
    "prepare_threshold=None (command line: `penstock worker --no-wake-ups`), or let the pooler "
    "keep prepared statements (PgBouncer 1.21 and later: max_prepared_statements)."
)

_BY_SQLSTATE: Final = {row.sqlstate: row.error for row in ERRORS if row.sqlstate}

# Errors that PostgreSQL raises before our functions run.
_NOT_STORABLE: Final = frozenset({"22P05", "22P02", "22021", "54000", "54001"})
_OUT_OF_RANGE: Final = frozenset({"22003", "22008", "22015"})
_DIGITS: Final = (
    "PostgreSQL stores numbers with up to 131,072 digits before the point and 16,383 after it. "
    "Send this number as text."
)
_NO_SCHEMA: Final = frozenset({"3F000", "42883", "42P01", "42704"})
_PREPARED: Final = frozenset({"26000", "42P05"})
# Serialization failures and deadlocks, objects in use, and lock timeouts.
# The rest of class 55 is about the state of an object, which no retry changes.
_CONFLICT: Final = ("40", "55006", "55P03")
# Classes of SQLSTATEs: connections, operator intervention and failing disks, then resources, then
# logins. The table has the more specific states.
_GONE: Final = ("08", "57", "58")
_RESOURCES: Final = "53"
# SQLSTATEs of Penstock. One that the table does not have comes from a newer schema. Clients from
# before this rule raise the error of the driver for it.
_OURS: Final = "PS"
_LOGIN: Final = "28"
_HINTS: Final[dict[type[PenstockError], str]] = {
    ConnectionLimitError: "Close connections, lower max_size or raise max_connections, "
    "then try again.",
    DatabaseReadOnlyError: "Connect to the primary server, for example with "
    "target_session_attrs=read-write in the DSN. During a failover, try again.",
    DatabaseFullError: "Free disk space on the database server, then try again.",
    QueryCancelledError: "Try again. If it was a timeout, check statement_timeout and the load of "
    "the database.",
    TransactionConflictError: "Roll the transaction back and run all of it again.",
    PermissionDeniedError: GRANT,
}
# A refused connection has no SQLSTATE in psycopg, only the text of PostgreSQL or PgBouncer.
_LIMIT_WORDS: Final = (
    "too many clients already",
    "too many connections for",
    "remaining connection slots are reserved",
    "no more connections allowed",
)
_LOGIN_WORDS: Final = (
    "authentication failed",
    "no pg_hba.conf entry",
    "permission denied for database",
    "is not permitted to log in",
    'FATAL:  role "',
)


def from_database_error(exc: BaseException) -> PenstockError | None:
    """Convert an exception of a database driver to a Penstock error.

    Args:
        exc: The exception of psycopg, asyncpg, SQLAlchemy or Django.

    Returns:
        The Penstock error, or None if the exception has another cause. Its `retryable` says whether
        the same call may succeed later.
    """
    return next((error for each in _chain(exc) if (error := _translate(each))), None)


@contextmanager
def translated() -> Iterator[None]:
    """Raise the database errors of the body as Penstock errors where they correspond to one."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as exc:
        if error := from_database_error(exc):
            raise error from exc
        raise


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """The exception, and the one that SQLAlchemy (`orig`) or Django (`__cause__`) wrapped."""
    each: BaseException | None = exc
    while each is not None:
        yield each
        inner = getattr(each, "orig", None)
        each = inner if isinstance(inner, BaseException) else each.__cause__


def _translate(exc: BaseException) -> PenstockError | None:
    state = getattr(exc, "sqlstate", None) or getattr(exc, "pgcode", None)
    if not isinstance(state, str):
        return _connection_error(exc)
    message = _part(exc, "message_primary", "message") or str(exc)
    hint = _part(exc, "message_hint", "hint")
    if cls := _BY_SQLSTATE.get(state):
        fields = _fields(_part(exc, "message_detail", "detail"))
        return cls(message, hint=hint or _HINTS.get(cls), **fields)
    if state in _NOT_STORABLE:
        return PayloadNotStorableError(message, hint=hint)
    if state in _OUT_OF_RANGE:
        return InvalidValueError(message, hint=hint or (_DIGITS if "numeric" in message else None))
    return _condition(state, message, hint)


def _condition(state: str, message: str, hint: str | None) -> PenstockError | None:
    """Errors about the database or the connection, not about the call."""
    if state in _NO_SCHEMA and "penstock" in message:
        return SchemaMissingError(
            f"the database has no Penstock schema, or an older one ({message})", hint=MIGRATE
        )
    if state.startswith(_OURS):
        return PenstockError(message, hint=hint)
    if state in _PREPARED:
        return PoolerModeError(message, hint=POOLER)
    if state.startswith(_CONFLICT):
        return TransactionConflictError(message, hint=_HINTS[TransactionConflictError])
    if state.startswith(_LOGIN):
        return LoginRefusedError(message, hint=CHECK_DSN)
    if state.startswith(_GONE):
        return DatabaseUnavailableError(f"the database is not available: {message}", hint=CHECK_DSN)
    if state.startswith(_RESOURCES):
        return DatabaseUnavailableError(
            f"the database lacks a resource: {message}", hint=hint or RESOURCES
        )
    return None


def _connection_error(exc: BaseException) -> PenstockError | None:
    """A failure without a SQLSTATE: the server was not reached, or the connection broke."""
    names = {cls.__name__ for cls in type(exc).__mro__}
    driver = type(exc).__module__.partition(".")[0]
    lost = driver in {"psycopg", "psycopg2", "psycopg_pool"} and "OperationalError" in names
    if not lost and not isinstance(exc, ConnectionError):
        return None
    reason = " ".join(str(exc).split()) or type(exc).__name__
    message = f"the database is not available: {reason}"
    if any(words in str(exc) for words in _LIMIT_WORDS):
        return ConnectionLimitError(message, hint=_HINTS[ConnectionLimitError])
    if any(words in str(exc) for words in _LOGIN_WORDS):
        return LoginRefusedError(message, hint=CHECK_DSN)
    return DatabaseUnavailableError(message, hint=CHECK_DSN)


def _part(exc: BaseException, diagnostic: str, attribute: str) -> str | None:
    """A part of the server's report. psycopg has them in `diag`, asyncpg on the exception."""
    diag = getattr(exc, "diag", None)
    found = getattr(diag, diagnostic, None) if diag is not None else getattr(exc, attribute, None)
    return found if isinstance(found, str) else None


def _fields(detail: str | None) -> dict[str, Any]:
    """The DETAIL as fields, or no fields if another trigger put text there."""
    try:
        found = json.loads(detail or "{}")
    except ValueError:
        return {}
    reserved = {"message", "hint"}
    return {k: v for k, v in found.items() if k not in reserved} if isinstance(found, dict) else {}
