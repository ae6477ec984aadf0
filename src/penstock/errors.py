"""Every error a caller can meet, with its SQLSTATE, HTTP status and exit code in one table.

Imports no driver: a database error is recognised by its SQLSTATE, whichever driver raised it, so
that code on asyncpg or behind SQLAlchemy can use `from_database_error` too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

CHECK_DSN: Final = (
    "Check that PostgreSQL is running and that PENSTOCK_DSN, DATABASE_URL or --dsn points to it."
)
MIGRATE: Final = "Run `penstock migrate up` on this database."

GRANT: Final = "Grant the user one of penstock_producer, penstock_consumer or penstock_operator."
RESOURCES: Final = (
    "Try again later. If that does not help, see the database server's settings and log."
)
POOLER: Final = (
    "A pooler in transaction mode stands before the database. Give the client or the worker "
    "prepare_threshold=None (command line: `penstock worker --no-wake-ups`), or let the pooler "
    "keep prepared statements (PgBouncer 1.21 and later: max_prepared_statements)."
)


class PenstockError(Exception):
    """The root of the tree: `message` is the fact, `hint` the way out, `fields` the details."""

    def __init__(self, message: str, *, hint: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields: Mapping[str, Any] = fields

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message

    @property
    def sqlstate(self) -> str | None:
        return self._row().sqlstate

    @property
    def http_status(self) -> int:
        return self._row().http_status

    @property
    def exit_code(self) -> int:
        return self._row().exit_code

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later, with nothing changed by the caller."""
        return self._row().retryable

    def _row(self) -> ErrorRow:
        # Through the MRO, so that a subclass made by a user answers like its parent.
        return next(_BY_CLASS[cls] for cls in type(self).__mro__ if cls in _BY_CLASS)


class _QueueError(PenstockError):
    @property
    def queue(self) -> str | None:
        return self.fields.get("queue")


class _MessageError(PenstockError):
    @property
    def id(self) -> int | None:
        return self.fields.get("id")


class QueueNotFoundError(_QueueError):
    """No queue has this name."""


class QueueExistsError(_QueueError):
    """A queue of this name is already there."""


class InvalidQueueNameError(_QueueError):
    """The name breaks the rules for names, or is reserved (`.dlq`)."""


class InvalidValueError(PenstockError):
    """An argument or setting is out of range, of the wrong type, or unknown."""

    @property
    def field(self) -> str | None:
        return self.fields.get("field")

    @property
    def value(self) -> Any:
        return self.fields.get("value")

    @property
    def allowed(self) -> Any:
        return self.fields.get("allowed")


class PayloadTooLargeError(_QueueError):
    """The payload has more bytes than the queue's `max_payload_bytes`."""

    @property
    def size(self) -> int | None:
        return self.fields.get("size")

    @property
    def limit(self) -> int | None:
        return self.fields.get("limit")


class PayloadNotStorableError(PenstockError):
    """The payload or the headers are not JSON that PostgreSQL can hold."""


class LeaseLostError(_MessageError):
    """The lease ran out, or somebody else settled the message: nothing was changed."""


class QueueFullError(_QueueError):
    """The queue holds `max_depth` messages: try again when some are done."""

    @property
    def max_depth(self) -> int | None:
        return self.fields.get("max_depth")


class KeyConflictError(_QueueError, _MessageError):
    """Another message has this key, and the caller asked for an error in that case."""

    @property
    def key(self) -> str | None:
        return self.fields.get("key")


class MessageNotFoundError(_MessageError):
    """No message has this id, or it is already finished."""


class QueueNotEmptyError(_QueueError):
    """The queue still holds messages or has schedules, and `force` was not given."""

    @property
    def count(self) -> int | None:
        return self.fields.get("count")


class NotReplayableError(_MessageError):
    """History no longer holds what is needed to enqueue the message again."""


class _ScheduleError(PenstockError):
    @property
    def schedule(self) -> str | None:
        return self.fields.get("schedule")


class ScheduleNotFoundError(_ScheduleError):
    """No schedule has this name."""


class ScheduleExistsError(_ScheduleError):
    """A schedule of this name is already there."""


class ApiKeyExistsError(PenstockError):
    """A live API key has this name already."""


class ApiKeyNotFoundError(PenstockError):
    """No live API key has this name or id."""


class ServiceNotFoundError(PenstockError):
    """No registered service has this name or id."""


class ServiceExistsError(PenstockError):
    """A registered service has this name already."""


class QueueNotActiveError(_QueueError):
    """The queue of a service is being made or removed, or its making failed."""


class TaskNotFoundError(PenstockError):
    """No task of the control plane has this id."""


class AuthenticationError(PenstockError):
    """The HTTP server does not know these credentials, or was given none."""


class ServerUnavailableError(PenstockError):
    """The HTTP server cannot be reached, or something else answers in its place."""


class ServerRefusedError(PenstockError):
    """The HTTP server refused a call for a reason of its own: `status` and `code` say which."""

    @property
    def status(self) -> int | None:
        return self.fields.get("status")


class SchemaMissingError(PenstockError):
    """The database has no `penstock` schema, or one too old for this client."""


class SchemaNewerError(PenstockError):
    """The database was migrated by a newer Penstock than this one."""


class MigrationError(PenstockError):
    """A migration failed, or the database and the migration files tell different stories."""


class ConfigurationError(PenstockError):
    """A setting of the environment or of the command line is wrong."""


class PermissionDeniedError(PenstockError):
    """The database user may not do this."""


class DatabaseUnavailableError(PenstockError):
    """PostgreSQL cannot be reached, or went away during the call."""


class ConnectionLimitError(DatabaseUnavailableError):
    """PostgreSQL or a pooler accepts no more connections."""


class LoginRefusedError(DatabaseUnavailableError):
    """PostgreSQL does not let this user connect to this database."""


class DatabaseReadOnlyError(PenstockError):
    """The session is read-only: a standby, or `default_transaction_read_only`."""


class DatabaseFullError(PenstockError):
    """The disk of the database is full."""


class QueryCancelledError(PenstockError):
    """A timeout of the database, or somebody, cancelled the statement."""


class TransactionConflictError(PenstockError):
    """PostgreSQL gave up on the transaction: serialization failure, deadlock or lock timeout."""


class PoolerModeError(PenstockError):
    """A pooler in transaction mode lost a prepared statement."""


class LakeError(PenstockError):
    """A lake cannot be used, or does not hold what it should."""


class LakeConflictError(LakeError):
    """Another run changed the lake meanwhile: this step did not happen."""


class LakeMismatchError(LakeError):
    """The lake belongs to another database, or was made for another format."""


class ErrorRow(NamedTuple):
    """One line of the table. `sqlstate` is None for errors that SQL never raises by itself."""

    sqlstate: str | None
    error: type[PenstockError]
    http_status: int
    exit_code: int
    retryable: bool = False


# Exit codes by family: 2 bad input, 3 not found, 4 conflict, 5 try later, 6 database, 7 schema,
# 8 not allowed, 9 the lake; 1 is left for what nobody foresaw.
ERRORS: Final = (
    ErrorRow("PS001", QueueNotFoundError, 404, 3),
    ErrorRow("PS002", QueueExistsError, 409, 4),
    ErrorRow("PS003", InvalidQueueNameError, 422, 2),
    ErrorRow("PS004", InvalidValueError, 422, 2),
    ErrorRow("PS005", PayloadTooLargeError, 413, 2),
    ErrorRow("PS006", PayloadNotStorableError, 422, 2),
    ErrorRow("PS007", LeaseLostError, 409, 4),
    ErrorRow("PS008", QueueFullError, 429, 5, True),
    ErrorRow("PS009", KeyConflictError, 409, 4),
    ErrorRow("PS010", MessageNotFoundError, 404, 3),
    ErrorRow("PS011", QueueNotEmptyError, 409, 4),
    ErrorRow("PS012", NotReplayableError, 409, 4),
    ErrorRow("PS013", ScheduleNotFoundError, 404, 3),
    ErrorRow("PS014", ScheduleExistsError, 409, 4),
    ErrorRow("PS020", ApiKeyExistsError, 409, 4),
    ErrorRow("PS021", ApiKeyNotFoundError, 404, 3),
    ErrorRow("PS022", ServiceNotFoundError, 404, 3),
    ErrorRow("PS023", ServiceExistsError, 409, 4),
    ErrorRow("PS024", QueueNotActiveError, 409, 4),
    ErrorRow("PS025", TaskNotFoundError, 404, 3),
    ErrorRow(None, AuthenticationError, 401, 8),
    ErrorRow(None, ServerUnavailableError, 503, 6, True),
    ErrorRow(None, ServerRefusedError, 500, 1),
    ErrorRow("42501", PermissionDeniedError, 403, 8),
    ErrorRow(None, SchemaMissingError, 503, 7),
    ErrorRow(None, SchemaNewerError, 503, 7),
    ErrorRow(None, MigrationError, 503, 7),
    ErrorRow(None, DatabaseUnavailableError, 503, 6, True),
    ErrorRow("53300", ConnectionLimitError, 503, 6, True),
    ErrorRow(None, LoginRefusedError, 503, 8),
    ErrorRow("25006", DatabaseReadOnlyError, 503, 6, True),
    ErrorRow("53100", DatabaseFullError, 507, 6),
    ErrorRow("57014", QueryCancelledError, 503, 5, True),
    ErrorRow(None, TransactionConflictError, 503, 5, True),
    ErrorRow(None, PoolerModeError, 503, 2),
    ErrorRow(None, ConfigurationError, 500, 2),
    ErrorRow(None, LakeConflictError, 409, 4, True),
    ErrorRow(None, LakeMismatchError, 409, 9),
    ErrorRow(None, LakeError, 500, 9),
    ErrorRow(None, PenstockError, 500, 1),
)
_BY_CLASS: Final = {row.error: row for row in ERRORS}
_BY_SQLSTATE: Final = {row.sqlstate: row.error for row in ERRORS if row.sqlstate}

# What PostgreSQL itself says before our functions get a word in.
_NOT_STORABLE: Final = frozenset({"22P05", "22P02", "22021", "54000", "54001"})
_OUT_OF_RANGE: Final = frozenset({"22003", "22008", "22015"})
_NO_SCHEMA: Final = frozenset({"3F000", "42883", "42P01", "42704"})
_PREPARED: Final = frozenset({"26000", "42P05"})
# Serialization failures and deadlocks; objects in use, and locks that were not to be had in time.
# The rest of class 55 is about the state of an object, which no retry changes.
_CONFLICT: Final = ("40", "55006", "55P03")
# By class: connections, operator intervention, failing disks; resources; logins. The table has the
# states that say more.
_GONE: Final = ("08", "57", "58")
_RESOURCES: Final = "53"
_LOGIN: Final = "28"
_HINTS: Final[dict[type[PenstockError], str]] = {
    ConnectionLimitError: "Close connections, lower max_size or raise max_connections; "
    "then try again.",
    DatabaseReadOnlyError: "Connect to the primary server, for example with "
    "target_session_attrs=read-write in the DSN. During a failover, try again.",
    DatabaseFullError: "Free disk space on the database server. Trying again does not help "
    "until then.",
    QueryCancelledError: "Try again. If it was a timeout, see statement_timeout and what the "
    "database is busy with.",
    TransactionConflictError: "Roll the transaction back and run all of it again.",
    PermissionDeniedError: GRANT,
}
# A refused connection has no SQLSTATE in psycopg, only PostgreSQL's or PgBouncer's words.
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
    """The Penstock error that a driver's exception stands for, or None if it is not ours.

    Its `retryable` says whether the same call may succeed later.
    """
    return next((error for each in _chain(exc) if (error := _translate(each))), None)


@contextmanager
def translated() -> Iterator[None]:
    """Around a driver's calls: its errors come out as ours, where they are ours."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as exc:
        if error := from_database_error(exc):
            raise error from exc
        raise


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """The exception, then what SQLAlchemy (`orig`) or Django (`__cause__`) wrapped in it."""
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
        return InvalidValueError(message, hint=hint)
    return _condition(state, message, hint)


def _condition(state: str, message: str, hint: str | None) -> PenstockError | None:
    """What is wrong with the database or the way to it, rather than with the call."""
    if state in _NO_SCHEMA and "penstock" in message:
        return SchemaMissingError(
            f"the database has no Penstock schema, or an older one ({message})", hint=MIGRATE
        )
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
    """A failure with no SQLSTATE: the server was never reached, or the line broke."""
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
    """A part of the server's report: psycopg keeps them in `diag`, asyncpg on the exception."""
    diag = getattr(exc, "diag", None)
    found = getattr(diag, diagnostic, None) if diag is not None else getattr(exc, attribute, None)
    return found if isinstance(found, str) else None


def _fields(detail: str | None) -> dict[str, Any]:
    """The DETAIL as fields. Another trigger may put prose there: then there are none."""
    try:
        found = json.loads(detail or "{}")
    except ValueError:
        return {}
    reserved = {"message", "hint"}
    return {k: v for k, v in found.items() if k not in reserved} if isinstance(found, dict) else {}
