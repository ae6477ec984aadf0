"""One client of the crash test: works on the queue until it or the server is killed.

Run as `python crash_client.py DSN JOURNAL SEED`. What the server has acknowledged goes, line by
line, to a file that no crash of the server touches:

    e ID    an enqueue of this message was committed
    t ID    its ack is about to be sent: from here on it may be done
    a ID    its ack was committed
"""

from __future__ import annotations

import os
import random
import sys

import psycopg

LARGE = '"' + "x" * 3000 + '"'
ENQUEUE = "select penstock.enqueue('work', %s, key => %s, group_key => %s, delay => %s)"
ENQUEUE_MANY = """select penstock.enqueue_many(
    'work', array(select to_jsonb(i) from generate_series(1, 20) i))"""
CLAIM = "select id, token from penstock.claim('work', %s, 1)"
NACK = "select id from penstock.nack_many(%s::bigint[], %s::bigint[])"
ACK = "select penstock.ack_many(%s::bigint[], %s::bigint[])"


class Client:
    def __init__(self, dsn: str, journal: str, seed: int) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.random = random.Random(seed)
        self.keys = 0

    def note(self, what: str, messages: list[int]) -> None:
        """One write for all of them: whole or not at all, as far as the kernel is concerned."""
        os.write(self.journal, "".join(f"{what} {message}\n" for message in messages).encode())

    def ids(self, query: str, *arguments: object) -> list[int]:
        return [row[0] for row in self.connection.execute(query, arguments)]

    def enqueue_one(self) -> None:
        self.keys += 1
        key = f"{os.getpid()}-{self.keys}" if self.keys % 3 == 0 else None
        group = f"g{self.keys % 5}" if self.keys % 4 == 0 else None
        delay = "100 milliseconds" if self.keys % 5 == 0 else None
        payload = LARGE if self.keys % 7 == 0 else "1"
        self.note("e", self.ids(ENQUEUE, payload, key, group, delay))

    def enqueue_many(self) -> None:
        self.note("e", self.ids(ENQUEUE_MANY))

    def settle(self) -> None:
        leases = self.connection.execute(CLAIM, [self.random.randint(1, 20)]).fetchall()
        if not leases or self.random.random() < 0.05:
            return  # forgotten: the lease expires
        ids, tokens = (list(part) for part in zip(*leases, strict=True))
        if self.random.random() < 0.1:
            self.ids(NACK, ids, tokens)
            return
        self.note("t", ids)
        self.note("a", self.ids(ACK, ids, tokens))

    def give_up(self) -> None:
        with self.connection.transaction(force_rollback=True):
            self.connection.execute(ENQUEUE_MANY)
            self.connection.execute(CLAIM, [5])

    def turn(self) -> None:
        """Has the next enqueue take a new segment, so that segments are truncated all the time."""
        self.connection.execute("select setval('penstock.ring_until', 0)")

    def run(self) -> None:
        acts = [self.enqueue_one, self.enqueue_many, self.settle, self.give_up, self.turn]
        while True:
            self.random.choices(acts, [4, 2, 6, 1, 1])[0]()


if __name__ == "__main__":
    try:
        Client(sys.argv[1], sys.argv[2], int(sys.argv[3])).run()
    except psycopg.Error as error:
        # The server was killed.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
