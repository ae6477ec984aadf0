"""The numbers for Prometheus, and the dashboard that shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
from prometheus_client.parser import text_string_to_metric_families

from penstock.server.monitoring import process_metrics, queue_metrics

DOCS = Path(__file__).parents[2] / "docs"


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


def test_queues_rates_and_answers_are_counted(http: httpx.Client) -> None:
    work_through(http)
    found = samples(http)
    for state, count in (("ready", 2), ("leased", 1), ("dead", 1), ("scheduled", 0)):
        messages = value(found, "penstock_queue_messages", queue="orders", state=state)
        assert messages == count, state
    oldest = value(found, "penstock_queue_oldest_ready_seconds", queue="orders")
    assert (oldest or 0) > 0
    finished = value(found, "penstock_queue_finished_per_second", queue="orders", state="done")
    assert (finished or 0) > 0
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


def test_a_lease_that_ran_out_is_counted(http: httpx.Client, db: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(queue_metrics, "LOOK_SECONDS", 0)
    http.post("/api/messages", json={"topic": "orders", "json": 1}).raise_for_status()
    claimed = {"topic": "orders", "visibility_timeout_seconds": 1}
    assert http.post("/api/messages/dequeue", json=claimed).json()["messages"]
    # As soon as it has run out, the next claim gives it back.
    polled = {"topic": "orders", "wait_seconds": 20}
    assert http.post("/api/messages/dequeue", json=polled).json()["messages"]
    lost = value(samples(http), "penstock_queue_leases_lost_per_second", queue="orders")
    assert (lost or 0) > 0


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


def test_the_dashboard_and_its_page_know_every_metric_and_no_other(
    http: httpx.Client, dsn: str
) -> None:
    work_through(http)
    with psycopg.connect(dsn) as connection:
        connection.execute("select penstock.register_lake('main', '/lake', 'delta')")
    text = http.get("/metrics").text
    assert 'penstock_lake_lag_seconds{lake="main",layer="gold"}' in text
    there = set(re.findall(r"^# TYPE (penstock_\w+)", text, re.MULTILINE))
    pattern = r"penstock_[a-z_]*[a-z]"
    dashboard = json.loads((DOCS / "grafana" / "penstock.json").read_text("utf-8"))
    asked = set(re.findall(pattern, json.dumps(dashboard["panels"])))
    told = set(re.findall(rf"^\| `({pattern})", (DOCS / "how-to/monitor.md").read_text(), re.M))
    assert {name.removesuffix("_bucket") for name in asked} == there
    assert told == there


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
    assert total.waiting == 1, "who waited at a process that died waits no more"
