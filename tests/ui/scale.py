"""A database with much in it: what pages are measured on.

    python tests/ui/scale.py postgresql://... [share]

200 queues, a million messages, a million rows of history, a day of gold, 100 workers, 200
schedules, 100,000 acts of operators and more; `share` is a fraction of what depends on traffic.
Messages go in through the front door. History and gold are written as the engine and the lake would
have written them, since a million acks take too long.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import psycopg

QUEUES = 200

_PAYLOAD = "jsonb_build_object('order', n, 'to', 'ada@example.com', 'note', repeat('x', 100))"
_PAYLOADS = f"(select array_agg({_PAYLOAD}) from generate_series(1, %s::integer) n)"

HISTORY = f"""
insert into penstock.history_log (slot, id, queue, state, enqueued_at, first_claimed_at,
    last_claimed_at, finished_at, attempts, max_attempts, priority, payload_bytes_count,
    headers_bytes_count, worker, key, last_error, headers, payload)
select pg_sequence_last_value('penstock.history_current'), nextval('penstock.position'),
    'queue-' || lpad((n %% %(queues)s)::text, 3, '0'),
    case when n %% 500 = 0 then 'expired' when n %% 1000 = 1 then 'cancelled' else 'done' end,
    at - interval '3 s', at - interval '1 s', at - interval '1 s', at, 1 + (n %% 50 = 0)::integer,
    5, 0, 150, 2, 'worker-' || n %% 20, case when n %% 3 = 0 then 'order-' || n end, null, '{{}}',
    {_PAYLOAD}
from generate_series(%(first)s::integer, %(last)s::integer) n,
     lateral (select now() - interval '1 h' * (1 - n::float8 / %(rows)s) as at) t
"""

GOLD = """
insert into penstock.queue_minute (queue, minute, finished, done, dead, expired, cancelled,
    superseded, retried, failed_attempts, wait_seconds_p50, wait_seconds_p95, wait_seconds_p99,
    work_seconds_p50, work_seconds_p95, work_seconds_p99, end_to_end_seconds_p50,
    end_to_end_seconds_p95, end_to_end_seconds_p99, backlog_age_seconds, work_seconds,
    payload_bytes, payload_bytes_max)
select 'queue-' || lpad(q::text, 3, '0'), date_trunc('minute', now()) - interval '1 min' * m,
    40, 38, 1, 1, 0, 0, 3, 4, w, w * 3, w * 8, 0.05, 0.2, 0.9, w + 0.05, w * 3 + 0.2, w * 8 + 0.9,
    w * 9, 2.5, 6000, 300
from generate_series(0, %(queues)s - 1) q, generate_series(1, %(minutes)s::integer) m,
     lateral (select 0.5 + abs(sin(m / 200.0 + q)) as w) t
"""

# A day of charts in minutes and three months in hours.
CHARTS = """
insert into penstock.chart_point (slot, queue_id, is_hour, at, ready, leased, scheduled, dead, done,
    failed, died, waits, runs)
select penstock._chart_slot(h, t.at), q.id, h, t.at, 60 + n %% 50, 4, 12, n %% 20, 400, n %% 9, 0,
    array[[30, 20], [31, 50], [36 + n %% 7, 40], [56, 1]], array[[22, 30], [25, 60], [38, 9]]
from (select id from penstock.queue union all select 0) q, (values (false), (true)) k (h),
    generate_series(1, greatest(1, case when h then 2160 else 1440 end * %(share)s)::integer) n,
    lateral (select date_trunc('hour', now()) - interval '1 h' * n where h union all
             select date_trunc('minute', now()) - interval '1 min' * n where not h) t (at)
"""

GOLD_DAY = """
insert into penstock.queue_day (queue, day, finished, done, dead, expired, cancelled, superseded,
    retried, failed_attempts, wait_seconds_p50, wait_seconds_p95, wait_seconds_p99,
    work_seconds_p50, work_seconds_p95, work_seconds_p99, backlog_age_seconds, work_seconds,
    payload_bytes, payload_bytes_max)
select 'queue-' || lpad(q::text, 3, '0'), current_date - d, 57600, 54000, 1400, 1000, 1200, 0,
    3000, 4000, 0.8, 2.5, 6, 0.05, 0.2, 0.9, 9, 3000, 8000000, 300
from generate_series(0, %(queues)s - 1) q, generate_series(0, (89 * %(share)s)::integer) d
"""

GOLD_ERRORS = """
insert into penstock.error_day (queue, day, error_fingerprint, error_kind, error, retries, dead,
    first_at, last_at)
select 'queue-' || lpad(q::text, 3, '0'), current_date - d, 'f' || e,
    'smtp timeout after <n> s ' || e, 'smtp timeout after 30 s ' || e, 40 * e, e,
    now() - interval '1 d', now()
from generate_series(0, %(queues)s - 1) q, generate_series(0, (30 * %(share)s)::integer) d,
    generate_series(1, 5) e
"""

GOLD_WORKERS = """
insert into penstock.worker_minute (queue, worker, minute, finished, failed_attempts, busy_seconds)
select 'queue-' || lpad(q::text, 3, '0'), 'worker-' || (q + w) %% 20,
    date_trunc('minute', now()) - interval '1 min' * m, 20, 1, 12.5
from generate_series(0, %(queues)s - 1) q,
    generate_series(1, greatest(1, 60 * %(share)s)::integer) m, generate_series(0, 1) w
"""


# Two workers for each queue, with some messages that they run.
WORKERS = """
select penstock.beat('worker-' || w, 'running', now() - interval '1 h' * w, jsonb_build_object(
    'takes_commands', true, 'quiet', false, 'hostname', 'host-' || w / 4, 'pid', 4000 + w,
    'version', '0.1.0', 'queues', (
        select jsonb_object_agg('queue-' || lpad(((w * 4 + n) %% %(queues)s)::text, 3, '0'),
            jsonb_build_object('concurrency', 10, 'running', 2, 'done', 5000 + n, 'failed', n,
                'done_per_minute', 60, 'failed_per_minute', n, 'p50_seconds', 0.05,
                'p95_seconds', 0.4,
                'runs', jsonb_build_array(
                    jsonb_build_object('id', '1' || n, 'attempt', 1, 'seconds', 12),
                    jsonb_build_object('id', '2' || n, 'attempt', 2, 'seconds', 3))))
        from generate_series(0, 3) n)))
from generate_series(0, %(queues)s / 2 - 1) w
"""

SCHEDULES = """
select penstock.create_schedule('report-' || q, 'queue-' || lpad(q::text, 3, '0'),
    (q %% 60) || ' 6 * * *', jsonb_build_object('report', q))
from generate_series(0, %(queues)s - 1) q
"""

ACTIVITY = """
insert into penstock.activity_log (at, actor, act, target, details, request_id, address)
select now() - interval '1 min' * n, 'operator-' || n %% 9,
    (array['purge', 'pause', 'resume', 'redrive', 'set queue'])[1 + n %% 5],
    'queue-' || lpad((n %% %(queues)s)::text, 3, '0'), jsonb_build_object('count', n %% 700),
    md5(n::text), '10.0.' || n %% 9 || '.' || n %% 250
from generate_series(1, greatest(10, 100000 * %(share)s)::integer) n
"""

# Paused, or the server would send the messages.
SUBSCRIPTIONS = """
select penstock.create_subscription('hook-' || q, 'queue-' || lpad(q::text, 3, '0'),
    'https://shop.example.com/hooks/' || q, '{"enabled": false}')
from generate_series(0, %(queues)s - 1, 2) q
"""

BATCHES = """
select count(*) from (
    select penstock.add_to_batch(penstock.create_batch('import ' || n), 'mixed',
        array_fill('{"row": 1}'::jsonb, array[5]), delays => array_fill(interval '1 d', array[5]))
    from generate_series(1, 200) n) t
"""

KEYS = """
select penstock.create_key(substr(md5(n::text), 1, 12), 'program-' || n, 'sha256$' || md5(n::text),
    array['enqueue:queue-' || n || '*', 'read'], 'operator-1', now() + interval '90 d')
from generate_series(1, 100) n
"""

BULK_ACTS = """
select penstock.request_bulk_act('cancel', 'ready', array['queue-001'], 'order-' || n,
    in_background => false, created_by => 'operator-1')
from generate_series(1, 100) n
"""


def build(dsn: str, share: float = 1.0, say: Any = lambda text: None) -> None:
    """Fills a database that has the schema and nothing else."""
    started = time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as db:
        names = [f"queue-{n:03}" for n in range(QUEUES)]
        db.execute("select penstock.create_queue(name) from unnest(%s::text[]) name", [names])
        for name in names:
            _enqueue(db, name, int(5000 * share))
        say(f"messages after {time.monotonic() - started:.0f} s")
        _others(db, share)
        say(f"dead, leased and scheduled after {time.monotonic() - started:.0f} s")
        rows, piece = int(1_000_000 * share), 100_000
        for first in range(0, rows, piece):
            last = min(first + piece, rows) - 1
            db.execute(HISTORY, {"queues": QUEUES, "first": first, "last": last, "rows": rows})
        say(f"history after {time.monotonic() - started:.0f} s")
        db.execute(GOLD, {"queues": QUEUES, "minutes": max(1, int(1440 * share))})
        for text in (GOLD_DAY, GOLD_ERRORS, GOLD_WORKERS):
            db.execute(text, {"queues": QUEUES, "share": share})
        db.execute(CHARTS, {"share": share})
        for text in (WORKERS, SCHEDULES, ACTIVITY, SUBSCRIPTIONS, BATCHES, KEYS, BULK_ACTS):
            db.execute(text, {"queues": QUEUES, "share": share})
        for table in (
            "chart_point",
            "queue_minute",
            "queue_quarter",
            "queue_day",
            "history_log",
            "activity_log",
        ):
            db.execute(f"vacuum analyze penstock.{table}")
        say(f"all after {time.monotonic() - started:.0f} s")


def _enqueue(db: psycopg.Connection[Any], queue: str, count: int) -> None:
    if count:
        query = f"select count(*) from penstock.enqueue_many(%s, {_PAYLOADS})"
        db.execute(query, [queue, count])


def _others(db: psycopg.Connection[Any], share: float) -> None:
    """Some that are scheduled, dead, in work, and back after a failure."""
    db.execute("select penstock.create_queue('mixed', '{\"max_attempts\": 2}')")
    scheduled, piece = int(10_000 * share), min(1000, max(10, int(10_000 * share)))
    delays = (
        "(select array_agg(interval '1 h' + interval '1 s' * n) "
        "from generate_series(1, %s::integer) n)"
    )
    db.execute(
        f"select count(*) from penstock.enqueue_many('mixed', {_PAYLOADS}, delays => {delays})",
        [scheduled, scheduled],
    )
    for batch in range(max(2, int(10 * share))):
        _enqueue(db, "mixed", piece)
        leases = db.execute(
            "select id, token from penstock.claim('mixed', %s, 30, 'worker-3')", [piece]
        ).fetchall()
        ids, tokens = [id for id, _ in leases], [token for _, token in leases]
        errors = [f"smtp timeout after {n % 90} s for order {n}" for n in range(len(ids))]
        if batch % 2:
            errors = [f"KeyError: 'address' in message {n}" for n in range(len(ids))]
        db.execute("select count(*) from penstock.reject_many(%s, %s, %s)", [ids, tokens, errors])
    _enqueue(db, "mixed", 3 * piece)
    db.execute("select count(*) from penstock.claim('mixed', %s, 3600, 'worker-7')", [2 * piece])


def beat(db: psycopg.Connection[Any]) -> None:
    """The workers are alive: a heartbeat counts for half a minute."""
    db.execute("update penstock.heartbeat set seen_at = clock_timestamp()")


if __name__ == "__main__":
    build(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1.0, print)
