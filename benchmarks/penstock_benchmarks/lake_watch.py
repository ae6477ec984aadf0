"""The longest that the pipeline holds a transaction open in PostgreSQL, and with it a snapshot."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from penstock.spark.service_connection import APPLICATION
from penstock_benchmarks.statements import statement

# What is shorter than this may be missed; the age of the rest is too low by no more than it.
PAUSE_SECONDS = 0.02


class Watch:
    """`longest` has, for each activity, the age of the oldest transaction seen."""

    def __init__(self) -> None:
        self.longest: dict[str, float] = {}
        self._now = ""

    def doing(self, what: str) -> None:
        self._now = what
        self.longest.setdefault(what, 0.0)

    def look(self, connection: psycopg.Connection[tuple[float]]) -> None:
        parameters = {"application": APPLICATION}
        row = connection.execute(statement("lake.oldest_transaction"), parameters).fetchone()
        if row is not None and self._now:
            self.longest[self._now] = max(self.longest[self._now], row[0])

    @property
    def seconds(self) -> float | None:
        return max(self.longest.values(), default=None)


@contextmanager
def watching(dsn: str) -> Iterator[Watch]:
    """Looks at all sessions of the pipeline for as long as the block lasts."""
    watch, over = Watch(), threading.Event()

    def look() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not over.wait(PAUSE_SECONDS):
                watch.look(connection)

    thread = threading.Thread(target=look, name="watch")
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
