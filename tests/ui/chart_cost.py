"""What the stored charts cost the database: WAL and CPU of a minute.

    python tests/ui/chart_cost.py postgresql://... [messages each minute of each queue]

Of a database with the schema and nothing else. Makes 200 queues, lets messages end in all of them,
and records a minute, ten times. Prints medians. The CPU is that of the backend, so other load on
the machine hardly changes it.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import psycopg

QUEUES = 200
ROUNDS = 10
ENDED = """
insert into penstock.history_log (slot, id, queue, state, enqueued_at, first_claimed_at,
    last_claimed_at, finished_at, attempts, max_attempts, priority, payload_bytes_count,
    headers_bytes_count)
select 0, n, 'queue-' || n % 200, 'done', t.at - interval '1 ms' * (n % 977 + 20),
    t.at - interval '1 ms' * (n % 311), t.at - interval '1 ms' * (n % 311), t.at, 1, 5, 0, 1, 0
from generate_series(1, {rows}) n, lateral (select now() - interval '1 ms' * (n % 60000)) t (at)
"""


def cpu_ms(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def wal(db: psycopg.Connection[Any]) -> int:
    row = db.execute("select (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
    return int(row[0]) if row else 0


def main(dsn: str, each: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("select penstock.create_queue('queue-' || n) from generate_series(0, 199) n")
        db.execute("select penstock.enqueue('queue-' || n, '1') from generate_series(0, 199) n")
        pid = db.info.backend_pid
        spent, written, rows = [], [], []
        for round_ in range(ROUNDS + 1):
            if each:
                db.execute(ENDED.replace("{rows}", str(QUEUES * each)))
            db.execute(
                "update penstock.chart_progress set recorded_at = recorded_at - interval '1 h'"
            )
            before, cpu = wal(db), cpu_ms(pid)
            row = db.execute("select penstock.record_charts()").fetchone()
            if round_:  # the first warms up
                spent.append(cpu_ms(pid) - cpu)
                written.append(wal(db) - before)
                rows.append(row[0] if row else 0)
        size = db.execute(
            "select sum(pg_total_relation_size(c.oid)) / "
            "(select count(*) from penstock.chart_point) "
            "from pg_class c where c.relname ~ '^chart_point_[0-9]$'"
        ).fetchone()
    print(f"{QUEUES} queues, {each} messages each: {statistics.median(rows):.0f} rows, "
          f"{statistics.median(written) / 1000:.0f} kB of WAL, {statistics.median(spent):.0f} ms "
          f"of CPU a minute; a row takes {size[0] if size else 0:.0f} bytes")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60)
