"""The request and response bodies of topics."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from penstock.model.queue import Queue, QueueStats
from penstock.server import fields as f


class Backoff(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The delay of a nacked message. Omitted fields have their defaults."""

    kind: f.BackoffKind | UnsetType = UNSET
    base_seconds: f.BackoffBase | UnsetType = UNSET
    max_seconds: f.BackoffMax | UnsetType = UNSET
    jitter: f.BackoffJitter | UnsetType = UNSET


class Config(Struct, forbid_unknown_fields=True, kw_only=True):
    """The settings of a topic. An omitted or null setting has its default."""

    max_retries: f.MaxRetries | UnsetType | None = UNSET
    message_ttl_seconds: f.TopicTtl | UnsetType | None = UNSET
    max_depth: f.MaxDepth | UnsetType | None = UNSET
    throughput_limit: f.ThroughputLimit | UnsetType | None = UNSET
    visibility_timeout_seconds: f.LeaseSeconds | UnsetType | None = UNSET
    dlq_enabled: bool | UnsetType | None = UNSET
    max_in_flight: f.MaxInFlight | UnsetType | None = UNSET
    max_payload_bytes: f.MaxPayloadBytes | UnsetType | None = UNSET
    keep_history: f.KeepHistory | UnsetType | None = UNSET
    backoff: Backoff | UnsetType | None = UNSET


class NewTopic(Config, forbid_unknown_fields=True, kw_only=True):
    """A topic to create, with settings that differ from the defaults."""

    topic: f.NewName


class Topic(Struct, kw_only=True):
    """A topic with its current settings."""

    topic: str
    max_retries: int
    message_ttl_seconds: int | None
    max_depth: int | None
    throughput_limit: int | None
    visibility_timeout_seconds: int
    dlq_enabled: bool
    max_in_flight: int | None
    max_payload_bytes: int
    keep_history: int
    backoff: dict[str, Any]
    paused: bool
    created_at: datetime
    updated_at: datetime


class Topics(Struct):
    items: list[Topic]
    next: str | None = None


class Stats(Struct, kw_only=True):
    """The messages of a topic by state. `estimated`: there are too many to count exactly."""

    topic: str
    pending: int
    scheduled: int
    processing: int
    dead: int
    oldest_ready_seconds: float | None
    estimated: bool


class AllStats(Struct):
    items: list[Stats]
    next: str | None = None


class Counted(Struct):
    """The number of messages that changed."""

    count: int


class ForTopic(Struct, forbid_unknown_fields=True):
    topic: f.Name | None = None


class Drop(Struct, forbid_unknown_fields=True):
    force: bool = False


class Purge(Struct, forbid_unknown_fields=True):
    include_processing: bool = False
    max_count: f.PurgeCount | None = None


class Redrive(Struct, forbid_unknown_fields=True, kw_only=True):
    """The dead letters to redrive, the rate, and whether to count them only."""

    ids: f.Ids | None = None
    error_like: f.Filter | None = None
    older_than_seconds: f.Age | None = None
    id_from: f.Id | None = None
    id_to: f.Id | None = None
    max_count: f.MaxCount | None = None
    per_second: f.PerSecond | None = None
    dry_run: bool = False


# The names of this interface for settings with the same meaning.
_RENAMED = {"visibility_timeout_seconds": "lease_seconds"}
# For settings without a default, 0 means none, too.
_ZERO_IS_NONE = frozenset({"message_ttl_seconds", "max_depth", "throughput_limit", "max_in_flight"})


def changes(config: Config, *, whole: bool) -> dict[str, Any]:
    """The settings for the queue. With `whole`, omitted settings get their defaults."""
    found: dict[str, Any] = {}
    for name in Config.__struct_fields__:
        value = getattr(config, name)
        if value is UNSET and not whole:
            continue
        value = None if value is UNSET or (value == 0 and name in _ZERO_IS_NONE) else value
        if name == "max_retries":
            found["max_attempts"] = None if value is None else value + 1
        elif isinstance(value, Backoff):
            found[name] = msgspec.to_builtins(value)
        else:
            found[_RENAMED.get(name, name)] = value
    return found


def topic_document(queue: Queue) -> Topic:
    settings = queue.settings
    return Topic(
        topic=queue.name,
        max_retries=settings.max_attempts - 1,
        message_ttl_seconds=settings.message_ttl_seconds,
        max_depth=settings.max_depth,
        throughput_limit=settings.throughput_limit,
        visibility_timeout_seconds=settings.lease_seconds,
        dlq_enabled=settings.dlq_enabled,
        max_in_flight=settings.max_in_flight,
        max_payload_bytes=settings.max_payload_bytes,
        keep_history=settings.keep_history,
        backoff=settings.as_dict()["backoff"],
        paused=settings.paused,
        created_at=queue.created_at,
        updated_at=queue.updated_at,
    )


def stats_document(stats: QueueStats) -> Stats:
    return Stats(
        topic=stats.queue,
        pending=stats.ready + stats.scheduled,
        scheduled=stats.scheduled,
        processing=stats.leased,
        dead=stats.dead,
        oldest_ready_seconds=stats.oldest_ready_seconds,
        estimated=stats.estimated,
    )
