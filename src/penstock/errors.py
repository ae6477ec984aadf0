"""Every error of Penstock, with its SQLSTATE, HTTP status and exit code in one table.

The module imports no driver. It recognises database errors by their SQLSTATE, so code on asyncpg or
SQLAlchemy can use `from_database_error` too.
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
    "Try again later. If that does not help, check the settings and the log of the server."
)
POOLER: Final = (
    "A pooler in transaction mode is between the client and the database. Use "
    "prepare_threshold=None (command line: `penstock worker --no-wake-ups`), or let the pooler "
    "keep prepared statements (PgBouncer 1.21 and later: max_prepared_statements)."
)


class PenstockError(Exception):
    """The base class of all errors.

    Attributes:
        message: What happened.
        hint: What to do about it, or None.
        fields: Details by name, such as `queue` or `id`.
    """

    def __init__(self, message: str, *, hint: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields: Mapping[str, Any] = fields

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message

    @property
    def sqlstate(self) -> str | None:
        """The SQLSTATE under which SQL raises this error, or None."""
        return self._row().sqlstate

    @property
    def http_status(self) -> int:
        """The status with which the HTTP server answers."""
        return self._row().http_status

    @property
    def exit_code(self) -> int:
        """The exit code of the command line."""
        return self._row().exit_code

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later without a change by the caller."""
        return self._row().retryable

    def _row(self) -> ErrorRow:
        # Through the MRO, so that a subclass of a user has the values of its parent.
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
    """A queue with this name exists."""


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
    """The lease expired, or the message was settled. Nothing was changed."""


class QueueFullError(_QueueError):
    """The queue contains `max_depth` messages. Try again later."""

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
    """The queue contains messages or has schedules, and `force` was not given."""

    @property
    def count(self) -> int | None:
        return self.fields.get("count")


class NotReplayableError(_MessageError):
    """History does not have what is needed to enqueue the message again."""


class _ScheduleError(PenstockError):
    @property
    def schedule(self) -> str | None:
        return self.fields.get("schedule")


class ScheduleNotFoundError(_ScheduleError):
    """No schedule has this name."""


class ScheduleExistsError(_ScheduleError):
    """A schedule with this name exists."""


class _BatchError(PenstockError):
    @property
    def batch(self) -> int | None:
        return self.fields.get("batch")


class BatchNotFoundError(_BatchError):
    """No batch has this id. Finished batches are deleted after seven days."""


class BatchSealedError(_BatchError):
    """The batch is sealed: no messages can be added to it."""


class ApiKeyExistsError(PenstockError):
    """A live API key with this name exists."""


class ApiKeyNotFoundError(PenstockError):
    """No live API key has this name or id."""


class ServiceNotFoundError(PenstockError):
    """No registered service has this name or id."""


class ServiceExistsError(PenstockError):
    """A registered service with this name exists."""


class QueueNotActiveError(_QueueError):
    """The queue of a service is being created or removed, or its creation failed."""


class TaskNotFoundError(PenstockError):
    """No task of the control plane has this id."""


class TaskStatusError(PenstockError):
    """The status of a task of the control plane does not allow this."""


class ServiceUnreachableError(PenstockError):
    """A service did not answer the test of its connection."""


class SubscriptionNotFoundError(PenstockError):
    """No subscription has this name."""


class SubscriptionExistsError(PenstockError):
    """A subscription with this name, or of this queue, exists."""


class _WorkerError(PenstockError):
    @property
    def worker(self) -> str | None:
        return self.fields.get("worker")


class WorkerNotFoundError(_WorkerError):
    """No worker of this name was seen within a day."""


class WorkerTooOldError(_WorkerError):
    """The worker runs a version of Penstock that takes no commands."""


class NothingToUndoError(_QueueError):
    """The queue has no purge of the last hour that is not undone."""


class AuthenticationError(PenstockError):
    """The HTTP server got no credentials, or does not accept them."""


class ServerUnavailableError(PenstockError):
    """The HTTP server cannot be reached, or another program answers at its address."""


class ServerRefusedError(PenstockError):
    """The HTTP server refused a call. `status` and the field `code` give the reason."""

    @property
    def status(self) -> int | None:
        return self.fields.get("status")


class SchemaMissingError(PenstockError):
    """The database has no `penstock` schema, or one that is too old for this client."""


class SchemaNewerError(PenstockError):
    """A newer version of Penstock migrated the database."""


class MigrationError(PenstockError):
    """A migration failed, or the database does not match the migration files."""


class TaskArgumentsError(PenstockError, TypeError):
    """The arguments do not fit the signature of the task."""


class TaskFailedError(PenstockError):
    """The task has failed for good: its message is a dead letter."""

    @property
    def type(self) -> str | None:
        """The name of the exception that the task raised; None if it was rejected with a text."""
        return self.fields.get("type")

    @property
    def text(self) -> str:
        """What the exception said."""
        return str(self.fields.get("text", ""))

    @property
    def traceback(self) -> str | None:
        """The traceback in the worker, of a long one the end."""
        return self.fields.get("traceback")


class TaskCancelledError(PenstockError):
    """The call was cancelled, or superseded by a later call with the same key."""


class TaskExpiredError(PenstockError):
    """The time to live of the call was over before a worker could run it."""


class ResultNotFoundError(PenstockError):
    """The call has no result: none was kept, it is kept no longer, or there is no such call."""


class ConfigurationError(PenstockError):
    """A setting of the environment or of the command line is wrong."""


class PermissionDeniedError(PenstockError):
    """The database user lacks a permission."""


class DatabaseUnavailableError(PenstockError):
    """PostgreSQL cannot be reached, or the connection broke during the call."""


class ConnectionLimitError(DatabaseUnavailableError):
    """PostgreSQL or a pooler accepts no more connections."""


class LoginRefusedError(DatabaseUnavailableError):
    """PostgreSQL refuses this user's connection to this database."""


class DatabaseReadOnlyError(PenstockError):
    """The session is read-only: a standby, or `default_transaction_read_only`."""


class DatabaseFullError(PenstockError):
    """The disk of the database is full."""


class QueryCancelledError(PenstockError):
    """A timeout or an administrator cancelled the statement."""


class TransactionConflictError(PenstockError):
    """PostgreSQL aborted the transaction: serialization failure, deadlock or lock timeout."""


class PoolerModeError(PenstockError):
    """A pooler in transaction mode lost a prepared statement."""


class LakeError(PenstockError):
    """A lake cannot be used, or its content is wrong."""


class LakeConflictError(LakeError):
    """Another run changed the lake in the meantime. This step did nothing."""


class DamagedFileError(LakeError):
    """A file of a lake is missing, or differs from what was written: `path` says which."""

    @property
    def path(self) -> str | None:
        return self.fields.get("path")


class QualityError(LakeError):
    """Messages break a quality rule of their queue that stops the refresh of a lake."""

    @property
    def queue(self) -> str | None:
        return self.fields.get("queue")

    @property
    def rule(self) -> str | None:
        return self.fields.get("rule")


class LakeMismatchError(LakeError):
    """The lake belongs to another database, or has another format."""


class ErrorRow(NamedTuple):
    """One row of the table. `sqlstate` is None for errors that SQL does not raise."""

    sqlstate: str | None
    error: type[PenstockError]
    http_status: int
    exit_code: int
    retryable: bool = False


# Exit codes by family: 2 bad input, 3 not found, 4 conflict, 5 try later, 6 database, 7 schema,
# 8 not allowed, 9 the lake, 1 unexpected errors.
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
    ErrorRow("PS015", BatchNotFoundError, 404, 3),
    ErrorRow("PS016", BatchSealedError, 409, 4),
    ErrorRow("PS020", ApiKeyExistsError, 409, 4),
    ErrorRow("PS021", ApiKeyNotFoundError, 404, 3),
    ErrorRow("PS022", ServiceNotFoundError, 404, 3),
    ErrorRow("PS023", ServiceExistsError, 409, 4),
    ErrorRow("PS024", QueueNotActiveError, 409, 4),
    ErrorRow("PS025", TaskNotFoundError, 404, 3),
    ErrorRow("PS026", WorkerNotFoundError, 404, 3),
    ErrorRow("PS027", WorkerTooOldError, 409, 4),
    ErrorRow("PS028", NothingToUndoError, 409, 4),
    ErrorRow("PS040", TaskStatusError, 409, 4),
    ErrorRow("PS041", SubscriptionNotFoundError, 404, 3),
    ErrorRow("PS042", SubscriptionExistsError, 409, 4),
    ErrorRow(None, ServiceUnreachableError, 409, 6),
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
    ErrorRow(None, TaskArgumentsError, 422, 2),
    ErrorRow(None, TaskFailedError, 409, 4),
    ErrorRow(None, TaskCancelledError, 409, 4),
    ErrorRow(None, TaskExpiredError, 409, 4),
    ErrorRow(None, ResultNotFoundError, 404, 3),
    ErrorRow(None, ConfigurationError, 500, 2),
    ErrorRow(None, LakeConflictError, 409, 4, True),
    ErrorRow(None, LakeMismatchError, 409, 9),
    ErrorRow(None, DamagedFileError, 500, 9),
    ErrorRow(None, QualityError, 500, 9),
    ErrorRow(None, LakeError, 500, 9),
    ErrorRow(None, PenstockError, 500, 1),
)
_BY_CLASS: Final = {row.error: row for row in ERRORS}
_BY_SQLSTATE: Final = {row.sqlstate: row.error for row in ERRORS if row.sqlstate}

# Errors that PostgreSQL raises before our functions run.
_NOT_STORABLE: Final = frozenset({"22P05", "22P02", "22021", "54000", "54001"})
_OUT_OF_RANGE: Final = frozenset({"22003", "22008", "22015"})
_NO_SCHEMA: Final = frozenset({"3F000", "42883", "42P01", "42704"})
_PREPARED: Final = frozenset({"26000", "42P05"})
# Serialization failures and deadlocks, objects in use, and lock timeouts.
# The rest of class 55 is about the state of an object, which no retry changes.
_CONFLICT: Final = ("40", "55006", "55P03")
# Classes of SQLSTATEs: connections, operator intervention and failing disks, then resources, then
# logins. The table has the more specific states.
_GONE: Final = ("08", "57", "58")
_RESOURCES: Final = "53"
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
        return InvalidValueError(message, hint=hint)
    return _condition(state, message, hint)


def _condition(state: str, message: str, hint: str | None) -> PenstockError | None:
    """Errors about the database or the connection, not about the call."""
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
