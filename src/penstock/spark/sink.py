"""Writes a DataFrame into queues: tasks stage its rows, and the driver publishes them at once.

The tasks stage their rows (staging.py). When all are staged, Spark commits the write, and the
driver publishes it in one transaction, with a row in a ledger. So a write is in the queues as a
whole or not at all, and a repeated write is recognized by its content.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

import psycopg
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.errors import (
    DatabaseUnavailableError,
    InvalidValueError,
    PenstockError,
    QueueFullError,
    translated,
)
from penstock.spark.connection_cache import cached_connection
from penstock.spark.options import (
    Service,
    bad_value,
    check_names,
    choice,
    read_services,
    whole,
)
from penstock.spark.service_connection import Server, connect_to
from penstock.spark.sink_columns import CHECKSUM_MODULUS, incoming_columns
from penstock.spark.tasks import settle

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
RECONNECT_SECONDS: Final = 60
SINK_OPTIONS: Final = frozenset(
    {"dsn", "service", "queue", "job", "on_conflict", "unique_while", "full_wait_seconds"}
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    service: Service
    queue: str | None
    job: str | None
    on_conflict: str
    unique_while: str
    full_wait_seconds: int

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SinkOptions:
        check_names(options, SINK_OPTIONS)
        services = read_services(options)
        if len(services) > 1:
            raise bad_value("service", options["service"], "one name: a write goes to one service")
        job = options.get("job")
        if job is not None and not 1 <= len(job.encode()) <= 512:
            raise bad_value("job", job[:50], "1 to 512 bytes of text")
        return cls(
            service=services[0],
            queue=options.get("queue"),
            job=job,
            on_conflict=choice(options, "on_conflict", ("replace", "skip", "error")),
            unique_while=choice(options, "unique_while", ("waiting", "unfinished")),
            full_wait_seconds=whole(options, "full_wait_seconds", 600, 0, 86_400),
        )


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The report of a task."""

    attempt: UUID
    count: int
    checksum: int
    query: str | None = None  # the id of the stream


class _Sink:
    """The base of batch and stream. Pickled and sent to the tasks."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        self.options = options
        self.columns = incoming_columns(schema)
        if overwrite:
            raise bad_value("mode", "overwrite", "append: a queue is not replaced")
        if options.queue is None and "queue" not in self.columns:
            raise InvalidValueError(
                "the sink needs a queue",
                hint="Set option queue, or give the DataFrame a column queue.",
                field="queue",
            )
        # An unusable database is reported before any task starts.
        Server(options.service).close()

    def _stage(self, batches: Iterator[pa.RecordBatch], query: str | None) -> Staged:
        # Only a task needs Arrow. Spark starts one Python process to plan and another to commit.
        from penstock.spark.staging import Staging

        settle()
        attempt = uuid4()
        address = self.options.service.address()
        try:
            with cached_connection(address, connect_to, _check) as connection:
                part = _task().partitionId()
                staging = Staging(connection, attempt, part, self.columns, self.options.queue)
                for batch in batches:
                    staging.add(batch)
        except BaseException:
            self._drop([attempt])
            raise
        return Staged(attempt, staging.count, staging.checksum, query)

    def _publish(
        self, job: str, epoch: int, staged: Sequence[Staged], *, is_named: bool, same_batch: bool
    ) -> None:
        rows = sum(each.count for each in staged)
        parameters = (
            *(job, epoch, [each.attempt for each in staged], rows),
            sum(each.checksum for each in staged) % CHECKSUM_MODULUS,
            *(self.options.on_conflict, self.options.unique_while, is_named, same_batch),
        )
        try:
            repeated, published_at, before = self._until_published(parameters)
        except BaseException:
            self._drop([each.attempt for each in staged])
            raise
        if repeated and is_named:
            _log.warning(
                "penstock: job %r was written before, at %s, with %s rows: nothing was enqueued "
                "now (batch %d, %s rows)",
                *(job, published_at.isoformat(timespec="seconds"), f"{before:,}", epoch),
                f"{rows:,}",
            )

    def _until_published(self, parameters: Sequence[Any]) -> Any:
        """Wait while a queue is full or the database is unavailable, outside any transaction.

        A connection that was lost during the commit leaves open whether the write was published.
        The ledger knows, so asking again is safe.
        """
        began = time.monotonic()
        pause, in_doubt = 0.05, False
        while True:
            try:
                with translated(), Server(self.options.service) as server, server.transaction():
                    repeated, *before = server.call("spark_publish", *parameters)
                return repeated and not in_doubt, *before
            except (QueueFullError, DatabaseUnavailableError) as error:
                full = isinstance(error, QueueFullError)
                in_doubt = in_doubt or not full
                most = self.options.full_wait_seconds if full else RECONNECT_SECONDS
                if time.monotonic() + pause > began + most:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _drop(self, attempts: Sequence[UUID]) -> None:
        """Drops staged rows. If that fails, the upkeep of the database drops them a day later."""
        with suppress(PenstockError, psycopg.Error), Server(self.options.service) as server:
            server.call("spark_unstage", list(attempts))


class BatchSink(_Sink, DataSourceArrowWriter):
    """`df.write`. With `job`, a repeated write is recognized."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        self._job = options.job or f"write-{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._stage(iterator, None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        is_named = self.options.job is not None
        self._publish(self._job, 0, _staged(messages), is_named=is_named, same_batch=False)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._drop([each.attempt for each in _staged(messages)])


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """`df.writeStream`. The id of the query is the job, and its batch is the epoch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._stage(iterator, _task().getLocalProperty("sql.streaming.queryId"))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        staged = _staged(messages)
        if job := self.options.job or next((each.query for each in staged), None):
            # The checkpoint identifies the batch. A name that the user chose does not, because
            # another checkpoint may use it with other rows.
            same_batch = self.options.job is None
            self._publish(job, batchId, staged, is_named=True, same_batch=same_batch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._drop([each.attempt for each in _staged(messages)])


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def _check(connection: psycopg.Connection[Any]) -> None:
    connection.execute("select")


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None
    return task
