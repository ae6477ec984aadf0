"""A DataFrame into queues: copied in by the tasks, each partition once, whoever dies meanwhile.

Every partition is one transaction, with its line in a ledger: a task, an epoch or a whole write
that is run again finds the line and enqueues nothing. Spark's own work is done before that
transaction begins, so that it is short.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final
from uuid import uuid4

import psycopg
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.errors import InvalidValueError, QueueFullError, translated
from penstock.lake.kept import kept
from penstock.lake.options import Service, bad_value, check_names, choice, read_services, whole
from penstock.lake.server import Server, connect_to
from penstock.lake.sink_columns import incoming_columns
from penstock.lake.statements import statement
from penstock.lake.tasks import settle

if TYPE_CHECKING:
    import pyarrow as pa

SINK_OPTIONS: Final = frozenset(
    {"dsn", "service", "queue", "job", "on_conflict", "unique_while", "full_wait_seconds"}
)
SPOOL_BYTES: Final = 64 * 2**20
PIECE_BYTES: Final = 2**20


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
class Written(WriterCommitMessage):
    """What a task reports: `repeated` if its partition was there already."""

    job: str
    epoch: int
    count: int
    repeated: bool


class _Sink:
    """What batch and stream share. Pickled to the tasks."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        self.options = options
        self.columns = incoming_columns(schema)
        if overwrite:
            raise bad_value("mode", "overwrite", "append: a queue is not replaced")
        if options.queue is None and "queue" not in self.columns:
            raise InvalidValueError(
                "the sink was not told which queue to enqueue to",
                hint="Set option queue, or give the DataFrame a column queue.",
                field="queue",
            )
        # A database that is away, or has no schema or a newer one: before any task begins.
        Server(options.service).close()

    def _enqueue(self, batches: Iterator[pa.RecordBatch], job: str, epoch: int) -> Written:
        # Only a task needs Arrow: Spark starts a Python of its own for the plan, and one to commit.
        from penstock.lake.sink_copy import HEAD, TAIL, as_copy

        settle()
        part = _task().partitionId()
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
            spool.write(HEAD)
            for batch in batches:
                spool.write(as_copy(batch, self.columns))
            spool.write(TAIL)
            count, repeated = self._when_there_is_room(spool, job, epoch, part)
        return Written(job, epoch, count, repeated)

    def _when_there_is_room(
        self, spool: IO[bytes], job: str, epoch: int, part: int
    ) -> tuple[int, bool]:
        """Waits while a queue is full, outside of any transaction."""
        deadline = time.monotonic() + self.options.full_wait_seconds
        pause = 0.05
        while True:
            try:
                with kept(self.options.service.address(), connect_to, _check) as connection:
                    return self._copy(connection, spool, job, epoch, part)
            except QueueFullError:
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _copy(
        self, connection: psycopg.Connection[Any], spool: IO[bytes], job: str, epoch: int, part: int
    ) -> tuple[int, bool]:
        spool.seek(0)
        names = ", ".join(self.columns)
        copy_in = f"copy pg_temp.penstock_incoming ({names}) from stdin (format binary)"
        with translated(), connection.transaction():
            connection.execute(statement("incoming").encode())
            with connection.cursor().copy(copy_in.encode()) as copy:
                while piece := spool.read(PIECE_BYTES):
                    copy.write(piece)
            parameters = [
                *(job, epoch, part, self.options.queue),
                *(self.options.on_conflict, self.options.unique_while),
            ]
            query = "select * from penstock.spark_enqueue(%s, %s, %s, %s, %s, %s)"
            row = connection.execute(query, parameters).fetchone()
        assert row is not None
        return row[0], row[1]

    def _complete(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        if written:
            with Server(self.options.service) as server:
                server.call("spark_complete", written[0].job, written[0].epoch)


class BatchSink(_Sink, DataSourceArrowWriter):
    """`df.write`. With `job`, a write that is repeated enqueues only what is missing."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        # Without a name, the ledger still tells the attempts of one run apart from the next run.
        self._job = options.job or f"write-{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._enqueue(iterator, self._job, 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._complete(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was enqueued stays, and the ledger knows it: run the job again to complete it."""


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """`df.writeStream`: the query's own id is the job, its batch the epoch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = _task()
        job = self.options.job or task.getLocalProperty("sql.streaming.queryId")
        epoch = task.getLocalProperty("streaming.sql.batchId")
        assert job is not None
        assert epoch is not None
        return self._enqueue(iterator, job, int(epoch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._complete(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the epoch is run again, and finds what it has enqueued."""


def _check(connection: psycopg.Connection[Any]) -> None:
    connection.execute("select")


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None
    return task
