"""Transactions that keep PostgreSQL from cleaning up, as reports and forgotten sessions do."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import psycopg

from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.statements import statement


class Pin(StrEnum):
    READER = "reader"
    """A REPEATABLE READ transaction that has read a table which is neither system's."""

    XID = "xid"
    """A transaction that has written to such a table, and so holds a transaction id."""


@contextmanager
def pinned(dsn: str, pin: Pin) -> Iterator[None]:
    """The horizon stands still for as long as the block lasts."""
    with psycopg.connect(dsn, autocommit=True) as holder:
        holder.execute("set idle_in_transaction_session_timeout = 0")
        if holder.info.server_version >= 170000:
            holder.execute("set transaction_timeout = 0")
        holder.execute(statement(f"pin.{pin}").encode())
        yield
        try:
            holder.execute("rollback")
        except psycopg.OperationalError as error:
            raise BenchError(
                f"the transaction that pinned the horizon was ended by another session: {error}"
            ) from error
