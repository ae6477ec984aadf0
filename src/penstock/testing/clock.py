"""Stops and moves the engine's clock, for leases, delays, backoffs, times to live and
schedules.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

import psycopg

from penstock.commands.arguments import duration, moment
from penstock.errors import InvalidValueError
from penstock.model.message import Duration
from penstock.sql.expand import Expander
from penstock.sql.loader import load_query

# `migrate up` finds another checksum than its own there, and puts its own functions back.
_INSTALLED: Final = (
    "select exists (select from penstock.migration_code where checksum ~ 'penstock.testing')"
)
_HAS_PGMQ: Final = "select exists (select from penstock.migration_contract where name = 'pgmq')"
_FROZEN_AT: Final = "select pg_sequence_last_value('penstock.frozen_at')"
_SET: Final = "select penstock._set_clock(%s)"


class Clock:
    """Stops the clock of a database until the end of the `with` block.

        with Clock(dsn) as clock: client.enqueue("emails", {}, delay=3600) clock.move(hours=1)
        drain(app, client)

    It affects every session, so use it only in databases for tests. The first Clock of a database
    replaces the functions of the schema, and `penstock migrate up` restores them. Python's own
    clock and that of a Worker continue, so use `drain`.

    Args:
        dsn: The DSN of the database.
        at: The time to show, with a time zone. The default is now.
    """

    def __init__(self, dsn: str, at: datetime | None = None) -> None:
        self._dsn = dsn
        self._at = moment("at", at) or datetime.now(UTC)
        self._connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> Self:
        self._connection = psycopg.connect(self._dsn, autocommit=True)
        with self._connection.transaction():
            # Two tests that begin at once: one of them installs it.
            self._value("select pg_advisory_xact_lock(1885695603, 8)")
            if not self._value(_INSTALLED):
                self._install()
        self.set(self._at)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._connection is not None
        self._value(_SET, None)
        self._connection.close()

    @property
    def now(self) -> datetime:
        """The time that the clock shows."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._value(_FROZEN_AT))

    def set(self, at: datetime) -> None:
        """Show another time, later or earlier.

        Args:
            at: The time, with a time zone, from 1971 to 2499.

        Raises:
            InvalidValueError: `at` is not such a time.
        """
        at_utc = moment("at", at)
        if at_utc is None or not 1970 < at.year < 2500:
            raise InvalidValueError(f"at is {at!r}; allowed: a time from 1971 to 2499")
        self._value(_SET, at_utc)

    def move(
        self, by: Duration = 0, *, days: float = 0, hours: float = 0, minutes: float = 0
    ) -> None:
        """Move the clock. A negative duration moves it back.

        Args:
            by: A timedelta or a number of seconds.
            days: Days to add.
            hours: Hours to add.
            minutes: Minutes to add.
        """
        self.set(self.now + duration("by", by) + timedelta(days=days, hours=hours, minutes=minutes))

    def _install(self) -> None:
        """Replace functions and views, and those of pgmq if installed, by ones that read this
        clock.
        """
        clock = load_query("testing/clock")
        expander = Expander(clock="penstock._clock()")
        texts = [clock, expander.folder("functions"), expander.folder("views")]
        texts.append(expander.folder("contracts/mdb_queue"))
        if self._value(_HAS_PGMQ):
            texts.append(expander.folder("contracts/pgmq"))
        self._execute("set local client_min_messages = warning")
        for text in texts:
            self._execute(text)

    def _execute(self, text: str) -> None:
        assert self._connection is not None
        self._connection.execute(text.encode(), prepare=False)

    def _value(self, query: str, *arguments: Any) -> Any:
        if self._connection is None or self._connection.closed:
            raise RuntimeError("the clock is not stopped. Use it in a `with` block.")
        row = self._connection.execute(query.encode(), arguments or None).fetchone()
        return row[0] if row else None
