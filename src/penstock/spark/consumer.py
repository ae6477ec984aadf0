"""The state of a stream at one service: its generation, its acks, and its unsettled batches."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

import psycopg

from penstock.errors import ConfigurationError, PenstockError, translated
from penstock.spark.options import Service
from penstock.spark.service_connection import Server, connect

HEARTBEAT_SECONDS: Final = 10.0
SETTLERS: Final = 2


class Consumer:
    """One run of a stream, on the driver. A later run fences it off."""

    def __init__(self, server: Server, name: str) -> None:
        self.name = name
        self._server = server
        self.generation, self.acked, self.planned = server.call("spark_attach", name)
        self._settling: list[Future[None]] = []
        self._pool = ThreadPoolExecutor(SETTLERS, thread_name_prefix="settle")
        self._heartbeat = _Heartbeat(server.service, name, self.generation)
        self._settle()

    def check(self, tick: int) -> None:
        """A checkpoint may be behind by the batch in progress, but not by an acked batch."""
        if tick < self.acked - 1:
            raise ConfigurationError(
                f"the checkpoint is at batch {tick} of consumer {self.name!r}, "
                f"which has acked batch {self.acked}: another checkpoint uses the same name, "
                "or this one is an old copy",
                hint="Use a new checkpoint with another consumer. To give back messages that are "
                "claimed and not acked, run: select penstock.spark_release('NAME')",
            )

    def ack(self, tick: int) -> None:
        """The sink has the batch. Its messages are settled in the background: see `settled`."""
        if tick <= self.acked:
            return
        self.settled()
        self._server.call("spark_ack", self.name, self.generation, tick)
        self.acked = tick
        self._settle()

    def settled(self) -> None:
        """Waits until all acked batches are settled."""
        settling, self._settling = self._settling, []
        for done in wait(settling).done:
            done.result()

    def plan(self, tick: int, slices: Sequence[tuple[str, int]] = ()) -> int:
        """Plans a batch, or finds an existing plan. Returns the number of slices."""
        queues, wanted = [queue for queue, _ in slices], [count for _, count in slices]
        (count,) = self._server.call("spark_plan", self.name, self.generation, tick, queues, wanted)
        return int(count)

    def close(self) -> None:
        self._heartbeat.stop()
        self._pool.shutdown()

    def _settle(self) -> None:
        todo = self._server.rows("select tick, slice from penstock.spark_unsettled(%s)", self.name)
        shares = [todo[part::SETTLERS] for part in range(SETTLERS)]
        self._settling += [self._pool.submit(self._settle_share, s) for s in shares if s]

    def _settle_share(self, slices: Sequence[tuple[int, int]]) -> None:
        """Runs each in its own transaction."""
        with connect(self._server.service) as connection, translated():
            for tick, slice in slices:
                query = "select penstock.spark_settle(%s, %s, %s)"
                connection.execute(query, [self.name, tick, slice])


class _Heartbeat:
    """Reports every few seconds that the stream is running, including during a long batch."""

    def __init__(self, service: Service, name: str, generation: int) -> None:
        self._service = service
        self._parameters: list[Any] = [name, generation]
        self._over = threading.Event()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            # A missed report does no harm. A run that is fenced off gets an error at its next
            # write.
            with contextlib.suppress(psycopg.Error, PenstockError), connect(self._service) as c:
                c.execute("select penstock.spark_seen(%s, %s)", self._parameters)
