"""One connection to one of the two systems, with the timed calls prepared on it.

psycopg's cursors would cost as much processor time as the calls themselves, and on a small
machine the clients share the processor with the server. So this speaks libpq directly.
"""

from enum import StrEnum
from typing import Self

from psycopg import pq
from psycopg.pq.abc import PGresult

from penstock_benchmarks import wire
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.statements import statement

_BINARY = 1
_CALLS = ("enqueue", "enqueue_many", "claim", "ack", "ack_many")
_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)


class System(StrEnum):
    PENSTOCK = "penstock"
    PLAIN = "plain"


class Session:
    """`system` is one of System, or of another benchmark's: its statements have its name.

    `worker` is the argument of an ack in addition to the ids. Penstock's ack takes tokens.
    """

    def __init__(self, dsn: str, system: StrEnum, worker: str) -> None:
        self.system = system
        self._worker = worker.encode()
        self._connection = pq.PGconn.connect(dsn.encode())
        if self._connection.status != pq.ConnStatus.OK:
            raise BenchError(self._connection.get_error_message().strip())
        self._run(statement(f"{system}.session"))
        queries = {call: statement(f"{system}.{call}") for call in _CALLS}
        for call, query in {**queries, "control": statement("control")}.items():
            self._check(self._connection.prepare(call.encode(), query.encode()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.finish()

    def synchronous_commit(self, on: bool) -> None:
        self._run(f"set synchronous_commit = {'on' if on else 'off'}")

    def flush_statistics(self) -> None:
        self._run(statement("flush_statistics"))

    def enqueue(self, queue: bytes, payload: bytes) -> int:
        """The id of the message; `payload` as wire.jsonb made it."""
        return int.from_bytes(_value(self._call(b"enqueue", [queue, payload]), 0, 0))

    def enqueue_many(self, queue: bytes, payloads: bytes) -> PGresult:
        """A row for each message, its id first; `payloads` as wire.array made it."""
        return self._call(b"enqueue_many", [queue, payloads])

    def claim(self, queue: bytes, count: bytes) -> PGresult:
        return self._call(b"claim", [queue, count, self._worker])

    def ack(self, claimed: PGresult) -> int:
        """Settle everything that a claim returned; how many were."""
        count = claimed.ntuples
        if count == 0:
            return 0
        ack = self._ack_by_token if self.system is System.PENSTOCK else self._ack_by_worker
        settled = ack(claimed, count)
        if settled == 0:
            # Leases last longer than any cycle should, so this would make a number of nothing.
            raise BenchError(
                f"{self.system}: {count} messages were claimed and none could be acked"
            )
        return settled

    def ack_by_one(self, claimed: PGresult) -> int:
        """Settle everything that a claim returned, with a call for each; how many were."""
        return sum(self._ack_one(claimed, row) for row in range(claimed.ntuples))

    def prepare(self, call: str) -> None:
        """One more call of this system, such as archive, which not every system has."""
        query = statement(f"{self.system}.{call}").encode()
        self._check(self._connection.prepare(call.encode(), query))

    def archive(self, claimed: PGresult) -> int:
        """Moves everything that a claim returned to the archive, with a call for each."""
        for row in range(claimed.ntuples):
            self._call(b"archive", [_value(claimed, row, 0), self._worker])
        return claimed.ntuples

    def delay_commits(self, seconds: float) -> None:
        """Every commit of this session takes this much longer: only a superuser may."""
        microseconds = str(round(seconds * 1_000_000))
        self._run(statement("commit.delay_commits").replace("{microseconds}", microseconds))

    def control(self) -> None:
        """Something that has nothing to do with queues, to see how fast the machine is."""
        self._call(b"control", [])

    def _ack_by_token(self, claimed: PGresult, count: int) -> int:
        if count == 1:
            return self._ack_one(claimed, 0)
        ids, tokens = _column(claimed, 0), _column(claimed, 1)
        settled = self._call(b"ack_many", [wire.int8_array(ids), wire.int8_array(tokens)])
        return settled.ntuples

    def _ack_by_worker(self, claimed: PGresult, count: int) -> int:
        if count == 1:
            return self._ack_one(claimed, 0)
        ids = wire.int8_array(_column(claimed, 0))
        settled = self._call(b"ack_many", [ids, self._worker])
        return int.from_bytes(_value(settled, 0, 0))

    def _ack_one(self, claimed: PGresult, row: int) -> int:
        id = _value(claimed, row, 0)
        if self.system is System.PENSTOCK:
            self._call(b"ack", [id, _value(claimed, row, 1)])
            return 1
        return int.from_bytes(_value(self._call(b"ack", [id, self._worker]), 0, 0))

    def _run(self, query: str) -> None:
        self._check(self._connection.exec_(query.encode()))

    def _call(self, call: bytes, parameters: list[bytes]) -> PGresult:
        # Binary form of text is the text itself, so one format serves every parameter.
        formats = [_BINARY] * len(parameters)
        return self._check(self._connection.exec_prepared(call, parameters, formats, _BINARY))

    def _check(self, result: PGresult) -> PGresult:
        if result.status not in _GOOD:
            raise BenchError(f"{self.system}: {result.get_error_message().strip()}")
        return result


def _column(result: PGresult, column: int) -> list[bytes]:
    return [_value(result, row, column) for row in range(result.ntuples)]


def _value(result: PGresult, row: int, column: int) -> bytes:
    value = result.get_value(row, column)
    if value is None:
        raise BenchError(f"column {column} of a result is NULL")
    return value
