"""A queue on a real database, for other people's libraries to enqueue into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL

from penstock import Client


@pytest.fixture
def queue(dsn: str) -> Iterator[Client]:
    with Client(dsn, max_size=2) as client:
        client.create_queue("orders")
        yield client


@pytest.fixture
def sqlalchemy_url(dsn: str) -> URL:
    parts = conninfo_to_dict(dsn)
    host = {"host": str(parts["host"])}  # a socket's directory, which has no place in a URL
    user, database = parts.get("user"), parts["dbname"]
    return URL.create("postgresql+psycopg", user, database=database, query=host)
