"""Enqueues at a given rate until it is told to stop, and notes what became of each message.

`python -m tests.chaos.producer DSN QUEUE PLACE NUMBER RATE`; a line on stdin changes the rate, the
end of stdin ends it. Messages that a tick could not send, because the database was unavailable, are
not sent later: the load is offered, as users offer it, and does not wait.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from penstock import NewMessage, operations
from penstock.commands.command import Command

from .history import Journal

TICK = 0.02
GROUPS = 20
BATCH = 50


class Plan(NamedTuple):
    nonce: int
    group: int
    seq: int
    message: NewMessage


class Producer:
    def __init__(self, dsn: str, queue: str, place: Path, number: int, rate: float) -> None:
        self.dsn, self.queue, self.number, self.rate = dsn, queue, number, rate
        self.journal = Journal(place, f"producer{number}")
        self.random = random.Random(number)
        self.connection: psycopg.Connection[Any] | None = None
        self.nonce = number * 1_000_000_000
        self.seqs = [0] * GROUPS
        self.epoch = 0
        self.stopped = False

    def listen(self) -> None:
        """Follows what stdin says about the rate."""
        for line in sys.stdin:
            self.rate = float(line)
        self.stopped = True

    def run(self) -> None:
        due, owed = time.monotonic(), 0.0
        while not self.stopped:
            owed += self.rate * TICK
            while owed >= 1:
                count = min(int(owed), BATCH)
                owed -= count
                self._enqueue(count)
            due += TICK
            late = time.monotonic() - due
            if late > 0:
                # The tick took too long: continue from now, and owe the messages of this time,
                # unless the database was unavailable.
                owed += self.rate * late if self.connection is not None else 0
                owed = min(owed, self.rate)
                due += late
            else:
                time.sleep(-late)

    def _enqueue(self, count: int) -> None:
        planned = [self._plan() for _ in range(count)]
        self.journal.write("T", [plan[:3] for plan in planned])
        # One in fifty is rolled back, as callers do whose own work failed.
        keep = self.random.random() > 0.02
        try:
            ids = self._send([plan.message for plan in planned], keep)
        except psycopg.Error:
            # It may have been committed, or may still be, after the next messages. So the groups
            # end here, and others begin.
            self.epoch += 1
            self._close()
            time.sleep(0.1)
            return
        if keep:
            pairs = zip(planned, ids, strict=True)
            self.journal.write("E", [(plan.nonce, id) for plan, id in pairs])
        else:
            self.journal.write("R", [(plan.nonce,) for plan in planned])

    def _plan(self) -> Plan:
        self.nonce += 1
        payload = {"n": self.nonce, "x": "x" * (2000 if self._chance(0.01) else 40)}
        if self._chance(0.1):
            group = self.random.randrange(GROUPS)
            self.seqs[group] += 1
            number = (self.number * 1000 + self.epoch) * 1000 + group + 1
            message = NewMessage(payload, group=f"g{number}")
            return Plan(self.nonce, number, self.seqs[group], message)
        delay = self.random.uniform(0.05, 1.5) if self._chance(0.02) else None
        priority = self.random.choice([-1, 5]) if self._chance(0.02) else 0
        return Plan(self.nonce, 0, 0, NewMessage(payload, delay=delay, priority=priority))

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _send(self, messages: list[NewMessage], keep: bool) -> list[int]:
        connection = self._connected()
        with connection.transaction(force_rollback=not keep):
            if len(messages) > 1:
                return self._run(operations.enqueue_many(self.queue, messages))
            [one] = messages
            options = {"group": one.group, "delay": one.delay, "priority": one.priority}
            return [self._run(operations.enqueue(self.queue, one.payload, **options))]

    def _run(self, command: Command[Any]) -> Any:
        connection = self._connected()
        return command.decode(connection.execute(command.sql.encode(), command.params).fetchall())

    def _connected(self) -> psycopg.Connection[Any]:
        if self.connection is None:
            self.connection = psycopg.connect(
                self.dsn, autocommit=True, prepare_threshold=None, connect_timeout=5
            )
        return self.connection

    def _close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


if __name__ == "__main__":
    producer = Producer(
        sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    )
    threading.Thread(target=producer.listen, daemon=True).start()
    producer.run()
