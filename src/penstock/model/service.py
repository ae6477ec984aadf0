"""Registered PostgreSQL services and their queues. Imports no other module of Penstock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

QueueStatus: TypeAlias = Literal["Pending", "Provisioning", "Active", "Deprovisioning", "Failed"]
TaskKind: TypeAlias = Literal["create", "delete", "enqueue", "stats"]
TaskStatus: TypeAlias = Literal["pending", "running", "completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Service:
    """A PostgreSQL. `dsn` is None for the database of the server itself."""

    id: str
    name: str
    dsn: str | None = field(repr=False)  # it may hold a password
    created_at: datetime
    created_by: str | None
    secret: str | None = field(default=None, repr=False)  # the password, encrypted
    password_file: str | None = None
    address_version: int = 1
    checked_at: datetime | None = None
    down_since: datetime | None = None
    error_message: str | None = None
    status: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def is_down(self) -> bool:
        """Whether the last check failed."""
        return self.down_since is not None


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
    """The status and the result of a task. `waits_for` is why its service cannot be reached."""

    id: str
    kind: TaskKind
    status: TaskStatus
    result: Mapping[str, Any] | None = field(hash=False)
    error_message: str | None
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceTaskRow:
    """A task in the list of a service."""

    id: str
    kind: TaskKind
    queue: str
    status: TaskStatus
    result: Mapping[str, Any] | None = field(hash=False)
    error_message: str | None
    waits_for: str | None
    failures: int
    created_by: str | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """A task for the server that executes it."""

    kind: TaskKind
    name: str
    database_name: str
    visibility_timeout_seconds: int
    max_attempts: int
    dlq_enabled: bool
    request: Mapping[str, Any] | None = field(hash=False)
    failures: int
    service_id: str
    service: str
    dsn: str | None = field(repr=False)
    secret: str | None = field(repr=False)
    password_file: str | None
    address_version: int


@dataclass(frozen=True, slots=True)
class ServiceCheck:
    """A service that is to be checked."""

    id: str
    name: str
    dsn: str = field(repr=False)
    secret: str | None = field(repr=False)
    password_file: str | None
    address_version: int
    asked_at: datetime  # by the clock of the registry
