"""The columns of a lease: the one list that SQL, the clients, the worker and HTTP derive from.

- `penstock.lease`, the type that `penstock.claim` returns: sql/expand.py.
- The statements that claim, and the decoder of `Lease`: commands/lease_row.py.
- The fields of `Delivery`: worker/delivery.py.
- The documents of a dequeue over HTTP: server/api/rendering.py.
- The leases of the client over HTTP: http_client/responses.py.

The SQL type decides how a value is decoded and rendered. A new column comes last, and needs a
migration, a field of `Lease` and an expression in `{lease.row}` (sql/layout/row.sql).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class LeaseColumn(NamedTuple):
    """A column of `penstock.lease`.

    `field` is the name in Python, None if the column belongs to the field before it. `http` is the
    name in the documents of the data plane.
    """

    name: str
    sql_type: str
    field: str | None
    http: str


LEASE_COLUMNS: Final = (
    LeaseColumn("id", "bigint", "id", "id"),
    LeaseColumn("token", "bigint", "token", "lease_token"),
    LeaseColumn("queue", "text", "queue", "topic"),
    LeaseColumn("payload", "jsonb", "payload", "json"),
    LeaseColumn("payload_bytes", "bytea", None, "payload"),
    LeaseColumn("headers", "jsonb", "headers", "metadata"),
    LeaseColumn("key", "text", "key", "key"),
    LeaseColumn("priority", "integer", "priority", "priority"),
    LeaseColumn("group_key", "text", "group", "group"),
    LeaseColumn("attempt", "integer", "attempt", "attempt"),
    LeaseColumn("max_attempts", "integer", "max_attempts", "max_attempts"),
    LeaseColumn("enqueued_at", "timestamptz", "enqueued_at", "created_at"),
    LeaseColumn("lease_until", "timestamptz", "lease_until", "visibility_timeout"),
    LeaseColumn("expires_at", "timestamptz", "expires_at", "expires_at"),
    LeaseColumn("last_error", "text", "last_error", "last_error"),
    LeaseColumn("original_queue", "text", "original_queue", "original_topic"),
)
LEASE_FIELDS: Final = {
    column.field: place for place, column in enumerate(LEASE_COLUMNS) if column.field is not None
}
"""The place in a row of each field of `Lease`. That of `payload` has the JSON value."""


def places_of(sql_type: str) -> tuple[int, ...]:
    """The places of the columns with this type."""
    return tuple(place for place, column in enumerate(LEASE_COLUMNS) if column.sql_type == sql_type)
