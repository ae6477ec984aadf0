"""Everything that shows a lease derives from one list of columns."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from penstock.commands.lease_row import decode_lease, lease_columns
from penstock.http_client.responses import lease_of
from penstock.model.lease_columns import LEASE_COLUMNS, LEASE_FIELDS
from penstock.model.message import Lease
from penstock.server.api.documents import Message
from penstock.server.api.rendering import claimed
from penstock.worker.delivery import Delivery

AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
PAYLOADS = {"json": ('{"n": 1.50}', None), "bytes": (None, b"\x00\xff"), "null": ("null", None)}


def row_of(payload: str | None, raw: bytes | None, headers: str | None) -> list[Any]:
    return [
        *(7, 2**62 + 5, "orders", payload, raw, headers, "k", -3, "g", 2, 5),
        *(AT, AT, None, "it failed", None),
    ]


def test_a_lease_has_the_fields_of_the_list_in_their_order() -> None:
    assert tuple(each.name for each in fields(Lease)) == tuple(LEASE_FIELDS)


def test_a_delivery_has_every_field_of_a_lease() -> None:
    own = {"id", "token", "attempt", "max_attempts", "lease_until"}  # set by the worker
    assert {field for field in LEASE_FIELDS if not hasattr(Delivery, field)} <= own


def test_a_document_has_every_column() -> None:
    assert {column.http for column in LEASE_COLUMNS} <= set(Message.__struct_fields__)


def test_the_type_in_the_database_has_the_columns(connect: Any) -> None:
    query = """select attname, format_type(atttypid, null) from pg_attribute
               where attrelid = 'penstock.lease'::regclass and attnum > 0 order by attnum"""
    stored = [
        (name, kind.replace("timestamp with time zone", "timestamptz"))
        for name, kind in connect().execute(query)
    ]
    assert stored == [(column.name, column.sql_type) for column in LEASE_COLUMNS]
    assert [each.split("::")[0] for each in lease_columns().split(", ")] == [n for n, _ in stored]


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
@pytest.mark.parametrize("headers", [None, '{"a": 1}'], ids=["no headers", "headers"])
def test_a_lease_is_the_same_over_http(
    payload: tuple[str | None, bytes | None], headers: str | None
) -> None:
    row = row_of(*payload, headers)
    document = msgspec.json.encode(claimed(row, "worker"))
    assert lease_of(msgspec.json.decode(document)) == decode_lease(row)
