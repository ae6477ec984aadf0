"""The tables that Spark reads, column by column, as docs/reference/spark.md documents them.

A new column comes last. Columns are never renamed, and never change their type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.errors import InvalidValueError
from penstock.spark.naming import closest

SERVICE: Final = "service"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    spark_type: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table or a view that Spark reads.

    `relation` is its name in SQL, `id` the column of its id, and `time` the column that `initial`
    is compared with.

    A table with a `xid` is a log: append-only, and followed by snapshots.
    """

    name: str
    relation: str
    id: str
    time: str
    is_log: bool
    columns: tuple[Column, ...]

    def choose(self, names: tuple[str, ...]) -> tuple[Column, ...]:
        """The named columns, in the order of the table. All if none is named."""
        known = {column.name for column in self.columns}
        for name in names:
            if name not in known:
                raise InvalidValueError(
                    f"columns names {name!r}, which table {self.name} does not have"
                    f"{closest(name, known)}",
                    hint=f"Allowed: {', '.join(column.name for column in self.columns)}.",
                    field="columns",
                    value=name,
                )
        return tuple(c for c in self.columns if not names or c.name in names)


def _columns(*lines: str) -> tuple[Column, ...]:
    """Lines of `name type`."""
    return tuple(Column(*line.split()) for line in lines)


HISTORY: Final = Table(
    "history",
    "penstock.history_feed",
    "id",
    "finished_at",
    True,
    _columns(
        "service string",
        "id bigint",
        "queue string",
        "state string",
        "enqueued_at timestamp",
        "first_claimed_at timestamp",
        "last_claimed_at timestamp",
        "finished_at timestamp",
        "attempts int",
        "max_attempts int",
        "priority int",
        "worker string",
        "key string",
        "group_key string",
        "last_error string",
        "payload_bytes_count int",
        "headers_bytes_count int",
        "headers string",
        "payload string",
        "payload_bytes binary",
        "xid bigint",
    ),
)
ATTEMPTS: Final = Table(
    "attempts",
    "penstock.attempts_feed",
    "message_id",
    "ended_at",
    True,
    _columns(
        "service string",
        "message_id bigint",
        "queue string",
        "attempt int",
        "worker string",
        "started_at timestamp",
        "ended_at timestamp",
        "error string",
        "xid bigint",
        "state string",
    ),
)
_LIVE: Final = (
    "key string",
    "priority int",
    "group_key string",
    "enqueued_at timestamp",
    "first_claimed_at timestamp",
    "last_error string",
    "dead_at timestamp",
    "max_attempts int",
    "headers string",
    "payload string",
    "payload_bytes binary",
)
MESSAGES: Final = Table(
    "messages",
    "penstock.messages",
    "id",
    "enqueued_at",
    False,
    _columns(
        "service string",
        "id bigint",
        "queue string",
        "state string",
        "attempt int",
        "visible_at timestamp",
        "expires_at timestamp",
        "claimed_at timestamp",
        "lease_until timestamp",
        "worker string",
        "original_queue string",
        *_LIVE,
    ),
)
DEAD: Final = Table(
    "dead",
    "penstock.dead_letters",
    "id",
    "dead_at",
    False,
    _columns("service string", "id bigint", "queue string", "attempts int", *_LIVE),
)
# The columns that a claiming stream gets. It is not a table, but has the shape of one.
CLAIMED: Final = Table(
    "queue",
    "penstock.spark_claim",
    "id",
    "enqueued_at",
    False,
    _columns(
        "service string",
        "id bigint",
        "queue string",
        "payload string",
        "payload_bytes binary",
        "headers string",
        "key string",
        "priority int",
        "group_key string",
        "attempt int",
        "max_attempts int",
        "enqueued_at timestamp",
        "first_claimed_at timestamp",
        "expires_at timestamp",
        "last_error string",
    ),
)
TABLES: Final = {table.name: table for table in (HISTORY, ATTEMPTS, MESSAGES, DEAD)}
