"""One worker of the crash test: enqueues, claims and settles until it or the server is killed.

Run as `python crash_worker.py DSN JOURNAL SEED BATCH PAUSE`. While the file `enough` is next to the
journal, it enqueues nothing. Some of its transactions are slow to
commit, some roll back, some messages fail first. Every id whose enqueue was committed goes, as a
line, to a file that no crash of the server touches.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import psycopg

ENQUEUE = """select penstock.enqueue_many(%s, array(
    select jsonb_build_object('n', i, 'text', repeat('x', 100)) from generate_series(1, %s) i))"""
CLAIM = "select id, token from penstock.claim(%s, %s, 5, 'crash')"
NACK = """select id from penstock.nack_many(
    %s::bigint[], %s::bigint[], array_fill('boom 1'::text, array[cardinality(%s::bigint[])]),
    array_fill(interval '0', array[cardinality(%s::bigint[])]))"""
ACK = "select penstock.ack_many(%s::bigint[], %s::bigint[])"
QUEUES = ("one", "two", "three")
SHARED = "three"


def work(dsn: str, journal: Path, chance: random.Random, batch: int, pause: float) -> None:
    enough = journal.with_name("enough")
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with psycopg.connect(dsn) as connection:
        while True:
            time.sleep(pause)
            queue = chance.choice(QUEUES)
            more = 0 if enough.exists() else batch
            # Of the queue that Spark consumes, some are left for it.
            if queue == SHARED and not more:
                continue
            rows = connection.execute(ENQUEUE, [queue, more]).fetchall() if more else []
            wanted = batch // 2 if queue == SHARED else batch
            leases = connection.execute(CLAIM, [queue, wanted]).fetchall()
            settle(connection, leases, chance)
            if chance.random() < 0.1:
                time.sleep(chance.random())  # its rows come behind those of later transactions
            if chance.random() < 0.1:
                connection.rollback()
                continue
            connection.commit()
            os.write(file, "".join(f"{row[0]}\n" for row in rows).encode())


def settle(connection: psycopg.Connection, leases: list[tuple[int, int]], chance: object) -> None:
    if not leases:
        return
    ids, tokens = (list(part) for part in zip(*leases, strict=True))
    if chance.random() < 0.1:  # type: ignore[attr-defined]
        connection.execute(NACK, [ids, tokens, ids, ids])
    else:
        connection.execute(ACK, [ids, tokens])


if __name__ == "__main__":
    try:
        chance = random.Random(int(sys.argv[3]))
        work(sys.argv[1], Path(sys.argv[2]), chance, int(sys.argv[4]), float(sys.argv[5]))
    except psycopg.Error as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
