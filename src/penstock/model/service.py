"""Registered PostgreSQL services and their queues. Imports no other module of Penstock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

QueueStatus: TypeAlias = Literal["Pending", "Provisioning", "Active", "Deprovisioning", "Failed"]
TaskKind: TypeAlias = Literal["create", "delete", "enqueue", "stats"]
TaskStatus: TypeAlias = Literal["pending", "running", "completed", "failed"]


@dataclass(frozen=True, slots=True)
class Service:
    """A PostgreSQL. `dsn` is None for the database of the server itself."""

    id: str
    name: str
    dsn: str | None = field(repr=False)  # it may hold a password
    created_at: datetime
    created_by: str | None


@dataclass(frozen=True, slots=True)
class ServiceQueue:
    """The record of a queue on a service."""

    id: str
    service_id: str
    name: str
    database_name: str
    visibility_timeout_seconds: int
    max_attempts: int
    dlq_enabled: bool
    status: QueueStatus
    error_message: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ServiceTask:
    """The status and the result of a task."""

    id: str
    kind: TaskKind
    status: TaskStatus
    result: Mapping[str, Any] | None = field(hash=False)
    error_message: str | None


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """A task for the server that executes it."""

    kind: TaskKind
    name: str
    service: str
    dsn: str | None = field(repr=False)
    database_name: str
    visibility_timeout_seconds: int
    max_attempts: int
    dlq_enabled: bool
    request: Mapping[str, Any] | None = field(hash=False)
    failures: int
