"""The curl examples of the two interfaces that the server speaks, run by curl as they are printed.

Only host, credentials and ids are put in.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

CREATE = """
curl -u admin:password -X POST \\
https://api.foundrydb.com/managed-services/{service-id}/queues \\
-H "Content-Type: application/json" \\
-d '{
"name": "order-events",
"database_name": "defaultdb",
"visibility_timeout_seconds": 60,
"max_attempts": 5,
"dlq_enabled": true
}'
"""
LIST = """
curl -u admin:password \\
https://api.foundrydb.com/managed-services/{service-id}/queues
"""
GET = """
curl -u admin:password \\
https://api.foundrydb.com/managed-services/{service-id}/queues/order-events
"""
ENQUEUE = """
curl -u admin:password -X POST \\
https://api.foundrydb.com/managed-services/{service-id}/queues/order-events/messages \\
-H "Content-Type: application/json" \\
-d '{
"messages": [
{"payload": {"order_id": 1001, "event": "created"}},
{"payload": {"order_id": 1002, "event": "paid"}, "delay_seconds": 30}
]
}'
"""
POLL_ENQUEUE = """
curl -u admin:password \\
"https://api.foundrydb.com/managed-services/{service-id}/queues/order-events/messages?task_id=task-uuid"
"""
STATS = """
curl -u admin:password -X POST \\
https://api.foundrydb.com/managed-services/{service-id}/queues/order-events/stats
"""
POLL_STATS = """
curl -u admin:password \\
"https://api.foundrydb.com/managed-services/{service-id}/queues/order-events/stats?task_id=task-uuid"
"""
DELETE = """
curl -u admin:password -X DELETE \\
https://api.foundrydb.com/managed-services/{service-id}/queues/order-events
"""
DEQUEUE = """
curl -X POST http://localhost:8080/api/messages/dequeue \\
  -H "Content-Type: application/json" \\
  -d '{"topic": "orders", "count": 1, "visibility_timeout_seconds": 60}'
"""
KEYED = """
curl -X POST http://localhost:8080/api/messages \\
  -H "Content-Type: application/json" \\
  -d '{"topic": "orders", "key": "order-42", "payload": "eyJhbW91bnQiOjk5fQ=="}'
"""
KEYED_AGAIN = """
curl -X POST http://localhost:8080/api/messages \\
  -H "Content-Type: application/json" \\
  -d '{"topic": "orders", "key": "order-42", "payload": "eyJhbW91bnQiOjEwMH0="}'
"""
CONFIG = """
curl -u admin:secret -X PUT http://localhost:8080/api/topic-configs/orders \\
  -H "Content-Type: application/json" \\
  -d '{
    "max_retries": 5,
    "message_ttl_seconds": 3600,
    "max_depth": 1000,
    "throughput_limit": 100
  }'
"""
Curl = Callable[..., tuple[int, Any]]


@pytest.fixture
def curl(web: Any, make_key: Callable[..., str]) -> Curl:
    """Runs a printed command; its status and its document."""
    key = make_key("admin", "admin")

    def run(command: str, service: str = "", task: str = "") -> tuple[int, Any]:
        text = re.sub(r"https://api\.foundrydb\.com|http://localhost:8080", web.url, command)
        text = text.replace("{service-id}", service).replace("task-uuid", task)
        words = shlex.split(text.replace("\\\n", " "))
        words = [word for word in words if not word.startswith("admin:") and word != "-u"]
        added = ["--silent", "--user", f"admin:{key}", "--write-out", "\n%{http_code}"]
        done = subprocess.run([*words, *added], capture_output=True, text=True, check=True)
        body, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(body)

    return run


def until(ask: Callable[[], tuple[int, Any]], found: Callable[[int, Any], bool]) -> Any:
    while not found(*(answer := ask())):
        time.sleep(0.05)
    return answer[1]


def test_the_control_plane_answers_as_printed(curl: Curl, shared: Any, web: Any, run: Any) -> None:
    from penstock.commands import read

    service = run(read.service("local")).id
    status, made = curl(CREATE, service)
    assert status == 201
    assert list(made) == [
        "id", "service_id", "name", "database_name", "visibility_timeout_seconds", "max_attempts",
        "dlq_enabled", "status", "created_at", "updated_at",
    ]  # fmt: skip
    assert made["service_id"] == service
    assert (made["name"], made["database_name"], made["status"]) == (
        "order-events", "defaultdb", "Pending",
    )  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["created_at"])
    until(lambda: curl(GET, service), lambda status, queue: queue["status"] == "Active")
    status, listed = curl(LIST, service)
    expected = {
        "id": made["id"], "name": "order-events", "database_name": "defaultdb", "status": "Active",
        "visibility_timeout_seconds": 60, "max_attempts": 5, "dlq_enabled": True,
    }  # fmt: skip
    assert (status, listed) == (200, {"queues": [expected]})
    status, accepted = curl(ENQUEUE, service)
    assert (status, list(accepted)) == (202, ["task_id"])
    task = accepted["task_id"]
    done = until(lambda: curl(POLL_ENQUEUE, service, task), lambda status, _: status == 200)
    ids = done["result"]["message_ids"]
    result = {"message_ids": ids, "ids": [str(id) for id in ids]}
    assert done == {"task_id": task, "status": "completed", "result": result}
    assert len(ids) == 2
    status, accepted = curl(STATS, service)
    assert (status, list(accepted)) == (202, ["task_id"])
    task = accepted["task_id"]
    done = until(lambda: curl(POLL_STATS, service, task), lambda status, _: status == 200)
    age = done["result"]["oldest_age_seconds"]
    assert done == {
        "task_id": task,
        "status": "completed",
        "result": {
            "queue_name": "order-events", "ready_messages": 1, "inflight_messages": 0,
            "dead_messages": 0, "oldest_age_seconds": age,
        },
    }  # fmt: skip
    status, gone = curl(DELETE, service)
    assert (status, gone["status"], gone["id"]) == (202, "Deprovisioning", made["id"])


def test_the_data_plane_answers_as_printed(curl: Curl) -> None:
    assert curl(DEQUEUE) == (200, {"messages": []})
    status, first = curl(KEYED)
    assert (status, list(first)) == (201, ["id"])
    assert curl(KEYED_AGAIN) == (201, first)
    status, config = curl(CONFIG)
    assert status == 200
    assert (config["max_retries"], config["message_ttl_seconds"]) == (5, 3600)
    assert (config["max_depth"], config["throughput_limit"]) == (1000, 100)
    status, found = curl(DEQUEUE)
    assert (status, len(found["messages"])) == (200, 1)
    assert found["messages"][0]["payload"] == "eyJhbW91bnQiOjEwMH0="
    assert found["messages"][0]["id"] == first["id"]
