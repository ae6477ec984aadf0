"""Every error of Penstock as a class. `table.py` has the SQLSTATEs, statuses and exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class ErrorRow(NamedTuple):
    """One row of the table. `sqlstate` is None for errors that SQL does not raise."""

    sqlstate: str | None
    error: type[PenstockError]
    http_status: int
    exit_code: int
    retryable: bool = False


ROWS: Final[dict[type[PenstockError], ErrorRow]] = {}
"""The row of each class. `table.py` fills it."""


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
        if not self.hint:
            return self.message
        end = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{self.message}{end} {self.hint}"

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
        return next(ROWS[cls] for cls in type(self).__mro__ if cls in ROWS)


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
    """The queue contains messages, and `force` was not given."""

    @property
    def count(self) -> int | None:
        return self.fields.get("count")


class QueueHasSchedulesError(_QueueError):
    """The queue has schedules, and `force` was not given."""


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


class QueueNotFailedError(_QueueError):
    """Only a queue of a service whose creation or removal failed can be retried."""


class TaskInProgressError(_QueueError):
    """A task that creates or removes the queue of a service is in progress."""


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


class _ConsumerError(PenstockError):
    @property
    def consumer(self) -> str | None:
        return self.fields.get("consumer")


class ConsumerTakenOverError(_ConsumerError):
    """Another run of the Spark stream has taken over the consumer, or it was released."""


class StreamBatchGoneError(_ConsumerError):
    """The messages of a batch of a Spark stream cannot be read again."""


class _JobError(PenstockError):
    @property
    def job(self) -> str | None:
        return self.fields.get("job")


class JobWrittenError(_JobError):
    """A Spark job was written before with other rows."""


class BatchOutOfOrderError(_JobError):
    """A batch of a Spark stream comes after a later batch was written."""


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
    """The task has used up its attempts, so its message is a dead letter."""

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
