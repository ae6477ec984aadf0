"""Every read as a function that returns a Command. The queries are in sql/queries/read."""

from penstock.commands.read.access_queries import activity, ended_tokens, key_hashes, keys
from penstock.commands.read.database_queries import (
    horizon,
    known_schema_version,
    oldest_client,
    schema_version,
    server,
    storage,
)
from penstock.commands.read.message_queries import (
    browse,
    message,
    messages,
    page,
    queues_of,
    search,
    search_parts,
    whereabouts,
)
from penstock.commands.read.monitoring_queries import (
    counters,
    dead_errors,
    heartbeats,
    overdue,
    recent,
    recent_attempts,
    recent_times,
    ring,
    workers,
)
from penstock.commands.read.queue_queries import all_stats, exact_stats, queue, queues, stats
from penstock.commands.read.schedule_queries import schedule, schedules
from penstock.commands.read.service_queries import (
    service,
    service_queue,
    service_queues,
    service_task,
    services,
)

__all__ = [
    "activity",
    "all_stats",
    "browse",
    "counters",
    "dead_errors",
    "ended_tokens",
    "exact_stats",
    "heartbeats",
    "horizon",
    "key_hashes",
    "keys",
    "known_schema_version",
    "message",
    "messages",
    "oldest_client",
    "overdue",
    "page",
    "queue",
    "queues",
    "queues_of",
    "recent",
    "recent_attempts",
    "recent_times",
    "ring",
    "schedule",
    "schedules",
    "schema_version",
    "search",
    "search_parts",
    "server",
    "service",
    "service_queue",
    "service_queues",
    "service_task",
    "services",
    "stats",
    "storage",
    "whereabouts",
    "workers",
]
