"""Sessions that run other people's SQL as it is printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg import RawCursor

from .sessions import Connection


@pytest.fixture
def session(connect: Callable[..., Connection]) -> Callable[..., Connection]:
    """Opens sessions, of the test's database or another, that take $1 as libpq does."""
    return lambda dsn=None, **options: connect(dsn, cursor_factory=RawCursor, **options)


@pytest.fixture
def db(session: Callable[..., Connection]) -> Connection:
    return session()
