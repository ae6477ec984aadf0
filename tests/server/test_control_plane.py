"""The control plane: services, and queues on them, by tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from penstock.commands.write.services import add_service, apply_enqueue, request_task
from penstock.errors import ServiceExistsError

Db = psycopg.Connection[Any]
Open = Callable[..., httpx.Client]
QUEUES = "/managed-services/local/queues"
QUEUE = {
    "name": "order-events",
    "database_name": "defaultdb",
    "visibility_timeout_seconds": 60,
    "max_attempts": 5,
    "dlq_enabled": True,
}


def until(ask: Callable[[], Any], found: Callable[[Any], bool]) -> Any:
    """Asks until the answer is the one waited for; pytest ends what never comes."""
    while not found(answer := ask()):
        time.sleep(0.02)
    return answer


def active(http: httpx.Client, name: str = "order-events", base: str = QUEUES) -> dict[str, Any]:
    found: dict[str, Any] = until(
        lambda: http.get(f"{base}/{name}").json(),
        lambda queue: queue["status"] not in ("Pending", "Provisioning"),
    )
    return found


def create(http: httpx.Client, base: str = QUEUES, **fields: Any) -> httpx.Response:
    return http.post(base, json={**QUEUE, **fields})


def result(http: httpx.Client, path: str, task_id: str) -> dict[str, Any]:
    def ask() -> httpx.Response:
        return http.get(path, params={"task_id": task_id})

    answer = until(ask, lambda found: found.status_code != 202)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_queue_is_made_fed_counted_and_removed(http: httpx.Client, db: Db) -> None:
    made = create(http)
    assert made.status_code == 201
    assert {**QUEUE, "status": "Pending"}.items() <= made.json().items()
    assert made.json().keys() == {
        *QUEUE, "id", "service_id", "status", "created_at", "updated_at",
    }  # fmt: skip
    assert active(http)["status"] == "Active"
    [listed] = http.get(QUEUES).json()["queues"]
    assert listed.keys() == {"id", "status", *QUEUE}
    messages = [
        {"payload": {"order_id": 1001, "event": "created"}},
        {"payload": {"order_id": 1002, "event": "paid"}, "delay_seconds": 30},
    ]
    path = f"{QUEUES}/order-events/messages"
    accepted = http.post(path, json={"messages": messages})
    assert (accepted.status_code, accepted.json().keys()) == (202, {"task_id"})
    done = result(http, path, accepted.json()["task_id"])
    assert (done["task_id"], done["status"]) == (accepted.json()["task_id"], "completed")
    rows = db.execute(
        "select id, payload, state from penstock.messages where queue = 'order-events' order by id"
    )
    found = rows.fetchall()
    assert [row[0] for row in found] == done["result"]["message_ids"]
    assert [str(row[0]) for row in found] == done["result"]["ids"]
    assert [row[1]["order_id"] for row in found] == [1001, 1002]
    assert [row[2] for row in found] == ["ready", "scheduled"]
    stats_path = f"{QUEUES}/order-events/stats"
    stats = result(http, stats_path, http.post(stats_path).json()["task_id"])
    numbers = stats["result"]
    assert numbers.pop("oldest_age_seconds") >= 0
    assert numbers == {
        "queue_name": "order-events", "ready_messages": 1, "inflight_messages": 0,
        "dead_messages": 0,
    }  # fmt: skip
    going = http.delete(f"{QUEUES}/order-events")
    assert (going.status_code, going.json()["status"]) == (202, "Deprovisioning")
    until(lambda: http.get(f"{QUEUES}/order-events").status_code, lambda status: status == 404)
    row = db.execute("select deleted_at is not null, status from penstock.service_queue").fetchone()
    assert row == (True, "Deprovisioning")
    assert db.execute(
        "select count(*) from penstock.queues where name = 'order-events'"
    ).fetchone() == (0,)


def test_a_queue_of_one_plane_is_there_in_the_other(http: httpx.Client, db: Db) -> None:
    db.execute("select penstock.create_queue('by-sql', '{\"lease_seconds\": 7}')")
    found = http.get(f"{QUEUES}/by-sql").json()
    assert (found["status"], found["visibility_timeout_seconds"]) == ("Active", 7)
    http.put("/api/topic-configs/by-sql", json={"max_retries": 2}).raise_for_status()
    assert http.get(f"{QUEUES}/by-sql").json()["max_attempts"] == 3
    assert http.post(f"{QUEUES}/by-sql/stats").status_code == 202
    create(http)
    active(http)
    config = http.get("/api/topic-configs/order-events").json()
    assert (config["visibility_timeout_seconds"], config["max_retries"]) == (60, 4)
    db.execute("select penstock.drop_queue('by-sql', true)")
    assert http.get(f"{QUEUES}/by-sql").status_code == 404
    assert [q["name"] for q in http.get(QUEUES).json()["queues"]] == ["order-events"]


def test_a_queue_that_exists_is_a_conflict(http: httpx.Client, db: Db) -> None:
    create(http)
    assert create(http).status_code == 409
    db.execute("select penstock.create_queue('by-sql')")
    assert create(http, name="by-sql").status_code == 409


def test_only_active_queues_take_messages(http: httpx.Client, web: Any, db: Db) -> None:
    http.get(QUEUES)
    service = db.execute("select id from penstock.service").fetchone()
    db.execute(
        "insert into penstock.service_queue (service_id, name, database_name, status,"
        " visibility_timeout_seconds, max_attempts, dlq_enabled)"
        " values (%s, 'soon', 'x', 'Pending', 30, 5, true)",
        service,
    )
    body = {"messages": [{"payload": {}}]}
    refused = http.post(f"{QUEUES}/soon/messages", json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "QueueNotActiveError")
    assert http.post(f"{QUEUES}/soon/stats").status_code == 409
    assert http.post(f"{QUEUES}/none/messages", json=body).status_code == 404


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"name": "Upper"}, 422),
        ({"name": "a" * 129}, 422),
        ({"name": "with.dot"}, 422),
        ({"visibility_timeout_seconds": 0}, 422),
        ({"visibility_timeout_seconds": 43201}, 422),
        ({"max_attempts": 0}, 422),
        ({"max_attempts": 101}, 422),
        ({"dlq_enabled": "yes"}, 400),
        ({"database_name": "a b"}, 422),
        ({"other": 1}, 400),
    ],
)
def test_a_bad_queue_is_refused(shared: httpx.Client, fields: Any, status: int) -> None:
    answer = create(shared, **fields)
    assert answer.status_code == status, answer.text


def test_bad_messages_are_refused_at_once(http: httpx.Client, db: Db) -> None:
    create(http)
    active(http)
    path = f"{QUEUES}/order-events/messages"
    for messages, status in (
        ([], 422),
        ([{"payload": {}}] * 101, 422),
        ([{"payload": []}], 400),
        ([{"payload": {"a": "x" * 256 * 1024}}], 413),
        ([{"payload": {}, "delay_seconds": 43201}], 422),
        ([{"payload": {"a": "\x00"}}], 422),
        ([{}], 400),
    ):
        assert http.post(path, json={"messages": messages}).status_code == status, messages
    assert db.execute(
        "select count(*) from penstock.service_task where kind = 'enqueue'"
    ).fetchone() == (0,)


def test_a_database_that_is_not_there_fails_the_queue_and_says_why(http: httpx.Client, web: Any):
    web.server.context.runner.max_failures = 1
    assert create(http, database_name="nowhere").status_code == 201
    failed = active(http)
    assert failed["status"] == "Failed"
    assert "nowhere" in failed["error_message"]
    assert http.delete(f"{QUEUES}/order-events").status_code == 202


def test_a_service_may_be_another_database_and_keeps_its_secrets(
    http: httpx.Client, empty_dsn: str, run: Any, web: Any
) -> None:
    from psycopg.conninfo import make_conninfo

    run(add_service("other", make_conninfo(empty_dsn, password="hunter2")))
    with pytest.raises(ServiceExistsError):
        run(add_service("other", empty_dsn))
    shown = http.get("/managed-services").text + http.get("/managed-services/other").text
    assert "hunter2" not in shown
    base = "/managed-services/other/queues"
    assert create(http, base, database_name=None).status_code == 201
    assert active(http, base=base)["status"] == "Active"
    path = f"{base}/order-events/messages"
    task = http.post(path, json={"messages": [{"payload": {"n": 1}}]}).json()["task_id"]
    ids = result(http, path, task)["result"]["message_ids"]
    with psycopg.connect(empty_dsn) as other:
        rows = other.execute("select id, payload from penstock.messages").fetchall()
    assert rows == [(ids[0], {"n": 1})]
    assert http.get(QUEUES).json() == {"queues": []}
    by_id = http.get("/managed-services/other").json()["id"]
    assert http.get(f"/managed-services/{by_id}/queues/order-events").status_code == 200
    assert http.delete("/managed-services/other").status_code == 200
    assert http.get(base).status_code == 404
    assert http.delete("/managed-services/local").status_code == 422


def test_a_service_is_added_over_http(http: httpx.Client) -> None:
    dsn = "postgresql://ada:s3cret@db.example:5433/app?sslmode=require"
    made = http.post("/managed-services", json={"name": "far", "dsn": dsn})
    assert made.status_code == 201
    assert "s3cret" not in made.text
    assert (made.json()["host"], made.json()["database_name"]) == ("db.example", "app")
    assert made.json()["status"]["reachable"] is False
    assert made.json()["status"]["error_message"]
    assert http.post("/managed-services", json={"name": "far", "dsn": dsn}).status_code == 409
    bad = http.post("/managed-services", json={"name": "x", "dsn": "mysql://a@b/c"})
    assert bad.status_code == 422


def test_the_database_of_the_server_has_a_state_too(http: httpx.Client) -> None:
    [local] = http.get("/managed-services").json()["services"]
    for found in (local, http.get("/managed-services/local").json()):
        status = found["status"]
        assert (status["reachable"], status["schema_version"] is None) == (True, False)
        assert abs(status["clock_difference_seconds"]) < 5


def test_an_enqueue_task_that_is_applied_twice_enqueues_once(
    http: httpx.Client, run: Any, db: Db
) -> None:
    create(http)
    active(http)
    task = str(uuid4())
    first = run(apply_enqueue(task, "order-events", ['{"n": 1}', '{"n": 2}'], [0, 0]))
    assert run(apply_enqueue(task, "order-events", ['{"n": 1}', '{"n": 2}'], [0, 0])) == first
    assert db.execute(
        "select count(*) from penstock.messages where queue = 'order-events'"
    ).fetchone() == (2,)


def test_a_task_that_nobody_knows_is_not_there(http: httpx.Client) -> None:
    create(http)
    active(http)
    for task in (str(uuid4()), "nonsense"):
        answer = http.get(f"{QUEUES}/order-events/messages", params={"task_id": task})
        assert answer.status_code == 404
    assert http.get(f"{QUEUES}/order-events/messages").status_code == 400


def test_a_message_that_is_no_task_is_thrown_away(http: httpx.Client, db: Db) -> None:
    create(http)
    active(http)
    db.execute("select penstock.enqueue('penstock.tasks', '{\"task\": \"; drop\"}')")
    db.execute("select penstock.enqueue('penstock.tasks', '[]')")
    until(
        lambda: db.execute(
            "select ready + leased from penstock.stats('penstock.tasks')"
        ).fetchone(),
        lambda row: row == (0,),
    )


def test_two_servers_share_the_tasks(
    http: httpx.Client, start_server: Any, run: Any, db: Db
) -> None:
    start_server()
    for number in range(4):
        create(http, name=f"q{number}")
    for number in range(4):
        assert active(http, f"q{number}")["status"] == "Active"
    tasks = [
        run(
            request_task(
                "local",
                f"q{n % 4}",
                "enqueue",
                '{"payloads": ["{}"], "delays": [0]}',
                created_by="t",
            )
        )
        for n in range(40)
    ]
    done = (
        "select count(*) from penstock.service_task where status = 'completed' and kind = 'enqueue'"
    )
    until(lambda: db.execute(done).fetchone(), lambda row: row == (len(tasks),))
    row = db.execute(
        "select count(*), count(distinct id) from penstock.messages where queue ~ '^q'"
    ).fetchone()
    assert row == (40, 40)
