"""The request and response bodies of the control plane, field by field."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock.model.service import QueueStatus, ServiceQueue, TaskStatus
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


# A password may contain any character, percent-encoded. `penstock service add` also accepts
# libpq's other forms.
_PART = "(?:[A-Za-z0-9._~!-]|%[2-7][0-9A-Fa-f])+"
_URL = (
    f"^postgresql://{_PART}(?::{_PART})?@[A-Za-z0-9.-]+(?::[1-9][0-9]{{0,3}})?/[A-Za-z0-9_-]+"
    r"(?:\?sslmode=(?:disable|prefer|require|verify-ca|verify-full))?$"
)


class NewService(Struct, forbid_unknown_fields=True):
    """A PostgreSQL to register. Its address may contain a password, which is never shown."""

    name: Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")]
    dsn: Annotated[str, Meta(max_length=1024, pattern=_URL)]


class Service(Struct, kw_only=True):
    """A registered PostgreSQL, without its secrets."""

    id: str
    name: str
    host: str | None
    port: str | None
    user: str | None
    database_name: str
    created_at: datetime


class Services(Struct):
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
    """A queue on a service. Only Active queues accept messages. A Failed one has an error."""

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


class ManagedQueues(Struct):
    queues: list[QueueSummary]


class BrokeredMessage(Struct, forbid_unknown_fields=True):
    """A message: a JSON document of up to 256 KB, visible at once or after a delay."""

    payload: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
    delay_seconds: f.Delay = 0


class BrokeredMessages(Struct, forbid_unknown_fields=True):
    """Up to 100 messages. All of them are enqueued, or none."""

    messages: Annotated[list[BrokeredMessage], Meta(min_length=1, max_length=100)]


class TaskAccepted(Struct):
    """The id of the task, with which its result can be requested."""

    task_id: str


class TaskQuery(Struct, forbid_unknown_fields=True):
    task_id: Annotated[str, Meta(extra_json_schema={"format": "uuid"})]


class EnqueueResult(Struct):
    message_ids: list[int]


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


class StatsTask(Struct, kw_only=True):
    """The status of a request for stats."""

    task_id: str
    status: TaskStatus
    result: StatsResult | UnsetType = UNSET
    error_message: str | UnsetType = UNSET


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
