"""What a page may have to show: nothing yet, a good day, a bad night."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from penstock import Client

SCRIPT = "<script>window.pwned = true</script><img src=x onerror='window.pwned = true'>"


def healthy(client: Client, db: psycopg.Connection[Any]) -> None:
    """Three queues, two workers, a schedule; everything flows."""
    client.create_queue("emails", max_attempts=3)
    client.create_queue("orders", max_in_flight=50)
    client.create_queue("thumbnails", keep_history=2)
    for queue, worker in (("emails", "mailer-1"), ("orders", "shop-1"), ("thumbnails", "shop-1")):
        for n in range(40):
            client.enqueue(queue, {"n": n, "to": "ada@example.com"}, key=f"{queue}-{n}")
        for lease in client.claim(queue, 35, worker=worker):
            client.ack(lease)
        client.claim(queue, 2, worker=worker, lease_seconds=3600)
    client.enqueue("emails", {"digest": True}, delay=3600)
    client.create_schedule("nightly", "emails", "30 3 * * *", {"digest": True})
    beat(db, "mailer-1", emails=(1, 10))
    beat(db, "shop-1", orders=(1, 5), thumbnails=(0, 5))


def sick(client: Client, db: psycopg.Connection[Any]) -> None:
    """A queue without a worker, dead letters of two kinds, a paused queue, a full one, a
    silent worker, a schedule that cannot fire; and a good queue among them."""
    healthy(client, db)
    client.create_queue("invoices", max_attempts=2, backoff={"kind": "constant", "base_seconds": 0})
    for n in range(30):
        client.enqueue("invoices", {"invoice": n, "amount": 12.5 * n}, key=f"invoice-{n}")
    for n, lease in enumerate(client.claim("invoices", 12, worker="biller-1")):
        client.nack(lease, f"Timeout: no answer from 10.0.0.{n} after 30 s", delay=0)
    for n, lease in enumerate(client.claim("invoices", 18, worker="biller-1")):
        if n < 12:
            client.reject(
                lease, f"ValueError: amount {n} is not payable\n  at line 12\n  at line 77"
            )
        else:
            client.reject(lease, f"Timeout: no answer from 10.0.0.{n} after 30 s")
    for lease in client.claim("invoices", 2, worker="biller-1"):
        client.nack(lease, "Timeout: no answer from 10.0.0.9 after 30 s", delay=3600)
    age(db, "invoices", hours=2)
    client.create_queue("reports")
    for n in range(5):
        client.enqueue("reports", {"report": n})
    client.pause("reports")
    age(db, "reports", hours=1)
    client.create_queue("imports", max_depth=10)
    for n in range(10):
        client.enqueue("imports", {"file": n}, group=f"tenant-{n % 2}")
    client.create_schedule("hourly-import", "imports", "0 * * * *", {"all": True})
    db.execute(
        "update penstock.schedule set last_error = 'queue \"imports\" is full (PS009)', "
        "next_fire_at = now() - interval '10 minutes' where name = 'hourly-import'"
    )
    beat(db, "biller-1", seen=datetime.now(UTC) - timedelta(minutes=7), invoices=(0, 4))


def scripted(client: Client, db: psycopg.Connection[Any]) -> list[int]:
    """A script wherever a user can put text; the ids of the messages."""
    client.create_queue("scripts", max_attempts=1)
    options: Any = {"key": SCRIPT, "headers": {SCRIPT: SCRIPT, "traceparent": SCRIPT}}
    ids = [client.enqueue("scripts", {SCRIPT: [SCRIPT]}, **options)]
    (lease,) = client.claim("scripts", 1, worker=SCRIPT)
    client.reject(lease, SCRIPT)
    ids.append(client.enqueue("scripts", SCRIPT.encode(), group=SCRIPT))
    ids.append(client.enqueue("scripts", {SCRIPT: 1}, key=SCRIPT + "2", priority=1))
    client.claim("scripts", 1, worker=SCRIPT, lease_seconds=3600)
    ids.append(client.enqueue("scripts", SCRIPT, key=SCRIPT + "3"))
    (lease,) = [each for each in client.claim("scripts", 5, worker=SCRIPT) if each.id == ids[-1]]
    client.ack(lease)
    ids.append(client.enqueue("scripts", SCRIPT, key=SCRIPT + "4", delay=3600))
    ids.append(client.enqueue("scripts", SCRIPT, key=SCRIPT + "5"))
    client.create_schedule("scripts", "scripts", "0 3 * * *", {SCRIPT: SCRIPT})
    db.execute("update penstock.schedule set last_error = %s where name = 'scripts'", [SCRIPT])
    beat(db, SCRIPT, scripts=(1, 5))
    db.execute(
        "select penstock.record_activity(%s, %s, %s, jsonb_build_object(%s::text, %s::text))",
        [SCRIPT, SCRIPT, SCRIPT, SCRIPT, SCRIPT],
    )
    return ids


def gold(db: psycopg.Connection[Any]) -> None:
    """Two hours of analytics, as the lake publishes them, and a lake that is behind."""
    db.execute(
        "insert into penstock.queue_minute (queue, minute, finished, done, dead, expired, "
        "cancelled, superseded, retried, failed_attempts, wait_seconds_p50, wait_seconds_p95, "
        "wait_seconds_p99, work_seconds_p50, work_seconds_p95, work_seconds_p99, "
        "backlog_age_seconds, work_seconds, payload_bytes, payload_bytes_max) "
        "select q, date_trunc('minute', now()) - interval '1 min' * n, 40 + n % 17, 38 + n % 17, "
        "(n % 5 = 0)::int, 1, 0, 0, 3, n % 7, 0.4 + abs(sin(n / 9.0)), 2 + 2 * abs(sin(n / 9.0)), "
        "5 + 3 * abs(sin(n / 9.0)), 0.05, 0.2 + 0.1 * (n % 3), 0.9, 9, 2.5, 6000 + 40 * n, 300 "
        "from unnest(array['emails', 'orders']) q, generate_series(1, 120) n"
    )
    db.execute(
        "insert into penstock.queue_day (queue, day, finished, done, dead, expired, cancelled, "
        "superseded, retried, failed_attempts, wait_seconds_p50, wait_seconds_p95, "
        "wait_seconds_p99, work_seconds_p50, work_seconds_p95, work_seconds_p99, "
        "backlog_age_seconds, work_seconds, payload_bytes, payload_bytes_max) "
        "select q, current_date - n, 5000 + 100 * n, 4900, 12, 30, 58, 0, 300, 400, 0.8, 2.5, 6, "
        "0.05, 0.2, 0.9, 9, 300, 800000, 300 "
        "from unnest(array['emails', 'orders']) q, generate_series(0, 20) n"
    )
    db.execute(
        "insert into penstock.error_day (queue, day, error_fingerprint, error_kind, error, "
        "retries, dead, first_at, last_at) values "
        "('emails', current_date, 'a1', 'smtp timeout after <n> s', 'smtp timeout after 30 s', "
        "120, 4, now() - interval '3 h', now()), ('orders', current_date, 'b2', "
        "'KeyError: <value>', 'KeyError: ''address''', 7, 7, now() - interval '1 h', now())"
    )
    db.execute(
        "insert into penstock.worker_minute (queue, worker, minute, finished, failed_attempts, "
        "busy_seconds) select 'emails', 'mailer-' || w, date_trunc('minute', now()) - "
        "interval '1 min' * n, 20, 1, 12.5 * w from generate_series(1, 3) w, "
        "generate_series(1, 30) n"
    )


def charts(db: psycopg.Connection[Any]) -> None:
    """A day of charts in minutes and a month in hours, as the server records them.

    Work is done on the queues of `healthy` only, and `invoices` has the dead letters.
    """
    db.execute(
        "insert into penstock.chart_point (slot, queue_id, is_hour, at, ready, leased, scheduled, "
        "dead, done, failed, died, waits, runs) "
        "select penstock._chart_slot(h, t.at), q.id, h, t.at, "
        "m.ready + (m.ready / 3 * sin(n / 19.0 + q.id))::bigint, 4 + (2 * sin(n / 7.0))::bigint, "
        "12, case when name in ('', 'invoices') then greatest(0, 20 - n / 20) else 0 end, "
        "(m.done + m.done / 3.0 * sin(n / 31.0)) * case when h then 60 else 1 end, "
        "case when m.done > 0 then n % 9 else 0 end, n % 17 / 16, "
        # Of 1,000 messages each: the 95th percentile is in the third bucket, the 99th in the last.
        "array[[30 + n % 4, 500], [36 + n % 7, 420], [48 + (2 * sin(n / 17.0))::integer, 60], "
        "[56 + (2 * sin(n / 11.0))::integer, 20]], "
        "array[[22, 300], [25 + (2 * sin(n / 9.0))::integer, 620], "
        "[36 + (2 * sin(n / 13.0))::integer, 60], [43 + (2 * sin(n / 5.0))::integer, 20]] "
        "from (select id, name from penstock.queue union all select 0, '') q "
        "join lateral (select * from (values ('', 200, 430), ('emails', 120, 260), "
        "('orders', 60, 160), ('thumbnails', 6, 10)) v (queue, ready, done) where queue = q.name "
        "union all select q.name, 9, 0 where q.name not in ('', 'emails', 'orders', 'thumbnails')) "
        "m on true, "
        "(values (false), (true)) k (h), "
        "generate_series(1, case when h then 720 else 1440 end) n, lateral (select "
        "date_trunc('hour', now()) - interval '1 h' * n where h union all "
        "select date_trunc('minute', now()) - interval '1 min' * n where not h) t (at)"
    )


def beat(
    db: psycopg.Connection[Any],
    worker: str,
    seen: datetime | None = None,
    **queues: tuple[int, int],
) -> None:
    """A worker reports."""
    report = {
        "hostname": "shop.example",
        "pid": 4217,
        "version": "0.1.0",
        "queues": {q: {"running": r, "concurrency": c} for q, (r, c) in queues.items()},
    }
    started = datetime.now(UTC) - timedelta(hours=3)
    db.execute(
        "select penstock.beat(%s, 'running', %s, %s)",
        [worker, started, psycopg.types.json.Jsonb(report)],
    )
    if seen is not None:
        db.execute("update penstock.heartbeat set seen_at = %s where worker = %s", [seen, worker])


def beat_again(db: psycopg.Connection[Any]) -> None:
    """The workers report once more, but for the one that has been silent for minutes."""
    db.execute(
        "update penstock.heartbeat set seen_at = clock_timestamp() where worker <> 'biller-1'"
    )


def age(db: psycopg.Connection[Any], queue: str, hours: float) -> None:
    """The waiting messages of a queue have waited for this long."""
    for slot in range(9):
        db.execute(
            f"update penstock.ready_{slot} set enqueued_at = now() - interval '1 h' * %s "
            "where queue_id = (select id from penstock.queue where name = %s)",
            [hours, queue],
        )
