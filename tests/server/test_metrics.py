"""The numbers for Prometheus, and the dashboard that shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from psycopg.types.json import Jsonb

from penstock.server.monitoring import process_metrics, queue_metrics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RULES = ROOT / "deploy" / "prometheus" / "penstock-rules.yml"


def samples(client: httpx.Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = client.get("/metrics").raise_for_status().text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: dict[Any, float], metric: str, **labels: str) -> float | None:
    return found.get((metric, frozenset(labels.items())))


def work_through(http: httpx.Client) -> None:
    """Two waiting, one done, one dead, one leased and its lease lost."""
    for number in range(5):
        http.post("/api/messages", json={"topic": "orders", "json": number}).raise_for_status()
    body = {"topic": "orders", "count": 3, "visibility_timeout_seconds": 60}
    leases = http.post("/api/messages/dequeue", json=body).json()["messages"]
    tokens = [(each["id"], {"lease_token": each["lease_token"]}) for each in leases]
    http.post(f"/api/messages/{tokens[0][0]}/ack", json=tokens[0][1]).raise_for_status()
    http.post(f"/api/messages/{tokens[1][0]}/reject", json=tokens[1][1]).raise_for_status()
    again = http.post(f"/api/messages/{tokens[0][0]}/ack", json=tokens[0][1])
    assert again.status_code == 409


@pytest.fixture
def always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scrape reads the database."""
    monkeypatch.setattr(queue_metrics, "LOOK_SECONDS", 0)
    monkeypatch.setattr(queue_metrics, "REST", 0)


def names_in(expressions: str) -> set[str]:
    found = re.findall(r"penstock_[a-z_]*[a-z]", expressions)
    return {name.removesuffix("_bucket") for name in found}


def test_queues_rates_and_answers_are_counted(http: httpx.Client) -> None:
    work_through(http)
    found = samples(http)
    for state, count in (("ready", 2), ("leased", 1), ("dead", 1), ("scheduled", 0)):
        messages = value(found, "penstock_queue_messages", queue="orders", state=state)
        assert messages == count, state
    oldest = value(found, "penstock_queue_oldest_ready_seconds", queue="orders")
    assert (oldest or 0) > 0
    waited = value(found, "penstock_queue_wait_seconds", queue="orders", quantile="0.99")
    assert (waited or 0) > 0
    for how, count in (("enqueued", 5), ("delivered", 3), ("settled", 2), ("lost", 1)):
        assert value(found, "penstock_http_messages_total", how=how) == count, how
    route = {"method": "POST", "route": "/api/messages"}
    assert value(found, "penstock_http_requests_total", **route, status="201") == 5
    assert value(found, "penstock_http_request_seconds_count", **route) == 5
    assert value(found, "penstock_http_request_seconds_bucket", **route, le="+Inf") == 5
    assert value(found, "penstock_enqueued_total") == 5
    assert value(found, "penstock_database_up") == 1


@pytest.mark.usefixtures("always_read")
def test_a_queue_without_history_has_no_counters(
    http: httpx.Client, db: psycopg.Connection[Any]
) -> None:
    """A constant 0 would look like a queue without workers."""
    db.execute("""select penstock.create_queue('fast', '{"keep_history": 0}')""")
    db.execute("select penstock.create_queue('slow')")
    page = http.get("/metrics").text
    assert 'penstock_queue_paused{queue="fast"}' in page
    assert 'penstock_queue_finished_total{queue="slow"' in page
    for family in ("finished_total", "failed_attempts_total", "dead_letters_total"):
        assert f'penstock_queue_{family}{{queue="fast"' not in page


@pytest.mark.usefixtures("always_read")
def test_what_ends_is_added_to_counters_that_all_servers_share(
    http: httpx.Client,
    open_client: Callable[..., httpx.Client],
    start_server: Callable[..., Any],
    make_key: Callable[..., str],
) -> None:
    http.post("/api/messages", json={"topic": "orders", "json": 0}).raise_for_status()
    first = samples(http)
    assert value(first, "penstock_queue_finished_total", queue="orders", state="done") == 0
    work_through(http)
    other = open_client(make_key("reader", "read"), running=start_server())
    for found in (samples(http), samples(other), samples(http)):
        done = value(found, "penstock_queue_finished_total", queue="orders", state="done")
        assert done == 1
        assert value(found, "penstock_queue_dead_letters_total", queue="orders") == 1
        assert value(found, "penstock_queue_failed_attempts_total", queue="orders") == 1
        assert value(found, "penstock_queue_expired_leases_total", queue="orders") == 0


@pytest.mark.usefixtures("always_read")
def test_an_open_transaction_neither_hides_nor_repeats_what_it_counts(
    http: httpx.Client, db: psycopg.Connection[Any], dsn: str
) -> None:

    def done() -> float | None:
        return value(samples(http), "penstock_queue_finished_total", queue="orders", state="done")

    for number in range(3):
        http.post("/api/messages", json={"topic": "orders", "json": number}).raise_for_status()
    claim = "select penstock.ack(id, token) from penstock.claim('orders')"
    assert done() == 0
    with psycopg.connect(dsn) as slow:
        slow.execute(claim)
        db.execute(claim)
        assert done() == 1, "the one that has committed"
        db.execute(claim)
        assert done() == 2
        slow.commit()
    assert done() == 3
    assert done() == 3


@pytest.mark.usefixtures("always_read")
def test_counting_starts_again_after_a_long_pause_and_never_goes_back(
    http: httpx.Client, db: psycopg.Connection[Any]
) -> None:

    def count() -> float | None:
        return value(samples(http), "penstock_queue_finished_total", queue="orders", state="done")

    http.post("/api/messages", json={"topic": "orders", "json": 1}).raise_for_status()
    assert count() == 0
    work_through(http)
    assert count() == 1
    work_through(http)
    db.execute("update penstock.counted_history set counted_at = counted_at - interval '1 hour'")
    assert count() == 1, "nothing was scraped for an hour"
    work_through(http)
    assert count() == 2
    db.execute("select penstock.drop_queue('orders', force => true)")
    assert db.execute("select penstock.count_finished()").fetchall() == []


@pytest.mark.usefixtures("always_read")
def test_a_lease_that_ran_out_is_counted(http: httpx.Client) -> None:
    http.post("/api/messages", json={"topic": "orders", "json": 1}).raise_for_status()
    samples(http)
    claimed = {"topic": "orders", "visibility_timeout_seconds": 1}
    assert http.post("/api/messages/dequeue", json=claimed).json()["messages"]
    # As soon as it has expired, the next claim gives it back.
    polled = {"topic": "orders", "wait_seconds": 20}
    assert http.post("/api/messages/dequeue", json=polled).json()["messages"]
    assert value(samples(http), "penstock_queue_expired_leases_total", queue="orders") == 1


def test_workers_limits_schedules_and_the_engine_are_measured(
    http: httpx.Client, db: psycopg.Connection[Any]
) -> None:
    db.execute("""select penstock.create_queue('slow', '{"max_depth": 70, "paused": true}')""")
    db.execute("select penstock.create_queue('quick')")
    db.execute("select penstock.create_schedule('nightly', 'slow', '0 3 * * *')")
    db.execute("select penstock.create_schedule('late', 'slow', '* * * * *')")
    db.execute(
        "update penstock.schedule set next_fire_at = now() - interval '1 hour', last_error = 'full'"
        " where name = 'late'"
    )
    for worker, state in (("a", "running"), ("b", "running"), ("c", "draining"), ("d", "running")):
        report = Jsonb({"queues": {"slow": {"running": 1}}})
        db.execute("select penstock.beat(%s, %s, now(), %s)", [worker, state, report])
    db.execute(
        "update penstock.heartbeat set seen_at = now() - interval '1 hour' where worker = 'd'"
    )
    found = samples(http)
    for state, count in (("running", 2), ("draining", 1), ("silent", 1)):
        assert value(found, "penstock_workers", state=state) == count, state
    assert value(found, "penstock_queue_workers", queue="slow") == 2
    assert value(found, "penstock_queue_workers", queue="quick") == 0
    assert value(found, "penstock_queue_paused", queue="slow") == 1
    assert value(found, "penstock_queue_paused", queue="quick") == 0
    assert value(found, "penstock_queue_max_depth", queue="slow") == 70
    assert value(found, "penstock_queue_max_depth", queue="quick") is None
    nightly, late = ({"schedule": schedule, "queue": "slow"} for schedule in ("nightly", "late"))
    assert value(found, "penstock_schedule_late_seconds", **nightly) == 0
    assert (value(found, "penstock_schedule_late_seconds", **late) or 0) >= 3600
    assert value(found, "penstock_schedule_failing", **nightly) == 0
    assert value(found, "penstock_schedule_failing", **late) == 1
    assert value(found, "penstock_ring_segments", state="current") == 1
    assert value(found, "penstock_ring_segments", state="free") == 7
    assert value(found, "penstock_ring_overflow") == 0


@pytest.mark.usefixtures("always_read")
def test_the_session_that_pins_the_horizon_has_an_age(http: httpx.Client, dsn: str) -> None:
    with psycopg.connect(dsn) as pinning:
        pinning.execute("set transaction isolation level repeatable read")
        pinning.execute("select 1")
        pinned = value(samples(http), "penstock_horizon_age_seconds")
        assert (pinned or 0) > 0


def test_a_key_for_some_queues_is_told_of_no_others(
    http: httpx.Client,
    db: psycopg.Connection[Any],
    open_client: Callable[..., httpx.Client],
    make_key: Callable[..., str],
) -> None:
    work_through(http)
    for topic in ("orders-eu", "penstock.own"):
        db.execute("select penstock.create_queue(%s)", (topic,))
        db.execute("select penstock.enqueue(%s, '1')", (topic,))
    for name, scope, told in (
        ("team", "read:orders-*", {"orders-eu"}),
        ("everybody", "read", {"orders", "orders-eu"}),
        ("nobody", "read:nothing", set()),
    ):
        found = samples(open_client(make_key(name, scope)))
        queues = {dict(labels).get("queue") for _, labels in found} - {None}
        assert queues == told, scope
        assert value(found, "penstock_database_up") == 1
    queues = {dict(labels).get("queue") for _, labels in samples(http)} - {None}
    assert queues == {"orders", "orders-eu", "penstock.own"}, "an admin sees all"


def test_a_lake_whose_gold_is_behind_its_bronze_has_a_lag(http: httpx.Client, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("select penstock.register_lake('main', '/lake', 'delta')")
        landed = "select penstock.lake_landed('main', s, s, 5, 100) from pg_current_snapshot() s"
        connection.execute(landed)
        connection.execute(
            "select penstock.lake_newest('main', t, t - interval '1 hour', t - interval '2 hours',"
            " 5) from now() t"
        )
    found = samples(http)
    lag = {
        layer: value(found, "penstock_lake_lag_seconds", lake="main", layer=layer)
        for layer in ("bronze", "silver", "gold")
    }
    assert lag["bronze"] == 0
    assert 3600 <= (lag["silver"] or 0) < 7200 <= (lag["gold"] or 0)


def test_the_dashboard_and_its_page_know_every_metric_and_no_other(
    http: httpx.Client, dsn: str
) -> None:
    work_through(http)
    with psycopg.connect(dsn) as connection:
        connection.execute("select penstock.register_lake('main', '/lake', 'delta')")
    text = http.get("/metrics").text
    assert 'penstock_lake_lag_seconds{lake="main",layer="gold"}' in text
    there = set(re.findall(r"^# TYPE (penstock_\w+)", text, re.MULTILINE))
    dashboard = json.loads((DOCS / "grafana" / "penstock.json").read_text("utf-8"))
    asked = names_in(" ".join(t["expr"] for p in dashboard["panels"] for t in p.get("targets", ())))
    monitor = (DOCS / "how-to/monitor.md").read_text("utf-8")
    told = set(re.findall(r"^\| `(penstock_[a-z_]*[a-z])", monitor, re.M))
    of_workers = names_in((DOCS / "reference/worker.md").read_text("utf-8"))
    assert asked == there | of_workers
    assert told == there
    rules = yaml.safe_load(RULES.read_text("utf-8"))
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert names_in(" ".join(expressions)) <= there


def test_processes_behind_one_port_tell_the_sum(tmp_path: Path) -> None:
    own, other = process_metrics.Numbers(waiting=1), process_metrics.Numbers(waiting=2)
    for each, times in ((own, 2), (other, 3)):
        answers = each.answers.setdefault(("GET", "/x", 200), process_metrics.Answers())
        for _ in range(times):
            answers.add(0.003)
        each.messages["settled"] = times
    dead = tmp_path / "4194305"  # more than any pid can be
    notes = process_metrics.Notes(tmp_path)
    notes.write(other)
    next(tmp_path.iterdir()).rename(dead)
    notes.write(own)
    total = notes.sum(own)
    assert total.answers["GET", "/x", 200].count == 5
    assert sum(total.answers["GET", "/x", 200].buckets) == 5
    assert total.messages == {"settled": 5}
    assert total.waiting == 1, "callers of a process that died no longer wait"
