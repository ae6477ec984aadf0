"""The request and response bodies of the control plane, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock.model import service as model
from penstock.model.service import QueueStatus, ServiceQueue, TaskKind, TaskStatus
from penstock.server import fields as f

QueueName = Annotated[
    str,
    Meta(
        pattern="^[a-z0-9_-]{1,128}$",
        description="lowercase alphanumerics, hyphens and underscores, up to 128",
    ),
]
DatabaseName = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9_][A-Za-z0-9_$-]{0,62}$",
        description="a database of the service; defaultdb is the database in its address",
    ),
]

_ServiceName: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[a-z0-9][a-z0-9_-]{0,62}$",
        description="1 to 63 lowercase letters, digits, - and _, not beginning with - or _",
    ),
]
_Dsn: TypeAlias = Annotated[
    str,
    Meta(
        max_length=8192,
        description="postgresql://user:password@host:port/database or key=value pairs of libpq, "
        "with one host or several",
    ),
]
_Password: TypeAlias = Annotated[str, Meta(max_length=4096, description="instead of one in `dsn`")]
_PasswordFile: TypeAlias = Annotated[
    str,
    Meta(
        max_length=255,
        description="the name of a file of the servers that contains the password, in a directory "
        "of PENSTOCK_SERVICE_PATHS",
    ),
]


class NewService(Struct, forbid_unknown_fields=True, kw_only=True):
    """A PostgreSQL to register. Its password is stored encrypted, and never shown."""

    name: _ServiceName
    dsn: _Dsn
    password: _Password | None = None
    password_file: _PasswordFile | None = None


class ServiceChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """Another address or password. It is tested first, and refused if the test fails."""

    dsn: _Dsn | None = None
    password: _Password | None = None
    password_file: _PasswordFile | None = None
    check: bool = True


class ServiceStatus(Struct, kw_only=True):
    """The result of the last check. Fields without a value were not found out yet."""

    reachable: bool | None
    checked_at: datetime | None = None
    unreachable_since: datetime | None = None
    error_message: str | None = None
    version: str | None = None
    schema_version: int | None = None
    clock_difference_seconds: float | None = None
    user: str | None = None
    roles: list[str] = []
    may_migrate: bool | None = None
    is_standby: bool | None = None


class Service(Struct, kw_only=True):
    """A registered PostgreSQL, without its secrets."""

    id: str
    name: str
    host: str | None
    port: str | None
    user: str | None
    database_name: str
    created_at: datetime
    status: ServiceStatus


class ServiceList(Struct):
    services: list[Service]


class NewQueue(Struct, forbid_unknown_fields=True, kw_only=True):
    """A queue to create on a service."""

    name: QueueName
    database_name: DatabaseName | None = None
    visibility_timeout_seconds: f.LeaseSeconds = 30
    max_attempts: f.MaxAttempts = 5
    dlq_enabled: bool = True


class QueueSummary(Struct, kw_only=True):
    """A queue in a list."""

    id: str
    name: str
    database_name: str
    status: QueueStatus
    visibility_timeout_seconds: int
    max_attempts: int
    dlq_enabled: bool
    error_message: str | UnsetType = UNSET


class ManagedQueue(Struct, kw_only=True):
    """A queue on a service. Only Active queues accept messages. A Failed one has an error.

    `service_status` is there if the service cannot be reached: the rest is what was known last.
    """

    id: str
    service_id: str
    name: str
    database_name: str
    visibility_timeout_seconds: int
    max_attempts: int
    dlq_enabled: bool
    status: QueueStatus
    error_message: str | UnsetType = UNSET
    created_at: datetime
    updated_at: datetime
    service_status: ServiceStatus | UnsetType = UNSET


class ManagedQueues(Struct):
    """`service_status` is there if the service cannot be reached: the rest is what was known
    last."""

    queues: list[QueueSummary]
    service_status: ServiceStatus | UnsetType = UNSET


class ForceQuery(Struct, forbid_unknown_fields=True):
    """`force` removes the queue from the registry alone. The service is not asked."""

    force: bool = False


class BrokeredMessage(Struct, forbid_unknown_fields=True):
    """A message: a JSON document of up to 256 KB, visible at once or after a delay."""

    payload: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
    delay_seconds: Annotated[int, Meta(ge=0, le=43_200)] = 0


class BrokeredMessages(Struct, forbid_unknown_fields=True):
    """Up to 100 messages. All of them are enqueued, or none."""

    messages: Annotated[list[BrokeredMessage], Meta(min_length=1, max_length=100)]


class TaskAccepted(Struct):
    """The id of the task, with which its result can be requested."""

    task_id: str


class TaskQuery(Struct, forbid_unknown_fields=True):
    task_id: Annotated[str, Meta(extra_json_schema={"format": "uuid"})]


class EnqueueResult(Struct):
    """The ids in the order of the messages, as strings.

    `message_ids` has the same ids as numbers: clients of the contract of the control plane read
    numbers there. Languages whose numbers lose digits above 2^53 read `ids`.
    """

    message_ids: list[int]
    ids: list[str]


class StatsResult(Struct):
    queue_name: str
    ready_messages: int
    inflight_messages: int
    dead_messages: int
    oldest_age_seconds: float


class EnqueueTask(Struct, kw_only=True):
    """The status of an enqueue. The ids are in the order of the messages."""

    task_id: str
    status: TaskStatus
    result: EnqueueResult | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    waiting_for: str | UnsetType = UNSET


class StatsTask(Struct, kw_only=True):
    """The status of a request for stats."""

    task_id: str
    status: TaskStatus
    result: StatsResult | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    waiting_for: str | UnsetType = UNSET


class ServiceTask(Struct, kw_only=True):
    """A task of a service. `waiting_for` says why the service cannot be reached."""

    task_id: str
    kind: TaskKind
    queue_name: str
    status: TaskStatus
    result: dict[str, Any] | None
    error_message: str | None
    waiting_for: str | None
    failures: int
    created_by: str | None
    created_at: datetime
    finished_at: datetime | None


class ServiceTasks(Struct):
    """The latest tasks first. `next` is the `before` of the next page."""

    items: list[ServiceTask]
    next: str | None


class TasksQuery(Struct, forbid_unknown_fields=True):
    status: TaskStatus | None = None
    queue: QueueName | None = None
    before: Annotated[str, Meta(extra_json_schema={"format": "uuid"})] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


def service_status(service: model.Service) -> ServiceStatus:
    known = dict(service.status or {})
    return ServiceStatus(
        reachable=None if service.checked_at is None else not service.is_down,
        checked_at=service.checked_at,
        unreachable_since=service.down_since,
        error_message=service.error_message,
        **known,
    )


def task_result(result: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The result with ids of messages as strings too."""
    if result is None or "message_ids" not in result:
        return None if result is None else dict(result)
    return {**result, "ids": [str(id) for id in result["message_ids"]]}


def task_document(task: model.ServiceTaskRow) -> ServiceTask:
    fields = {name: getattr(task, name) for name in model.ServiceTaskRow.__slots__}
    return ServiceTask(
        task_id=fields.pop("id"),
        queue_name=fields.pop("queue"),
        waiting_for=fields.pop("waits_for"),
        result=task_result(fields.pop("result")),
        **fields,
    )


def queue_document(queue: ServiceQueue) -> ManagedQueue:
    return ManagedQueue(
        id=queue.id,
        service_id=queue.service_id,
        created_at=queue.created_at.replace(microsecond=0),
        updated_at=queue.updated_at.replace(microsecond=0),
        **_shared(queue),
    )


def queue_summary(queue: ServiceQueue) -> QueueSummary:
    return QueueSummary(id=queue.id, **_shared(queue))


def _shared(queue: ServiceQueue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "database_name": queue.database_name,
        "visibility_timeout_seconds": queue.visibility_timeout_seconds,
        "max_attempts": queue.max_attempts,
        "dlq_enabled": queue.dlq_enabled,
        "status": queue.status,
        "error_message": queue.error_message or UNSET,
    }
