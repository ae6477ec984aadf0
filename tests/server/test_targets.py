"""A key is held to the queues that a call really touches, whichever field they are named in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.server.scenes import Scene, verb_example

from penstock import operations
from penstock.commands import read
from penstock.commands.command import Command
from penstock.errors import InvalidValueError, PermissionDeniedError
from penstock.http_client import Client

Open = Callable[..., httpx.Client]
MakeKey = Callable[..., str]


@pytest.fixture
def orders(db: Any) -> Scene:
    return Scene(db, "orders")


@pytest.fixture
def emails(db: Any) -> Scene:
    return Scene(db, "emails").everything()


@pytest.fixture
def operator(open_client: Open, make_key: MakeKey, orders: Scene, emails: Scene) -> httpx.Client:
    return open_client(make_key("operator", "operate:orders", "enqueue:orders", "consume:orders"))


def send(client: httpx.Client, command: Command[Any], **changed: Any) -> httpx.Response:
    """A verb, with arguments as its sender likes."""
    example = verb_example(command)
    example.json["calls"][0]["arguments"].update(changed)
    return client.post(example.path, json=example.json, headers=example.headers)


def queue_of(run: Any, schedule: str) -> str:
    return str(run(read.schedule(schedule)).queue)


@pytest.mark.parametrize("field", ["queue", "cron", "payload"])
def test_settings_of_a_new_schedule_hold_none_of_its_arguments(
    run: Any, operator: httpx.Client, http: httpx.Client, field: str
) -> None:
    settings = {"queue": '{"queue": "emails"}', "cron": '{"cron": "@hourly"}'}.get(
        field, '{"payload": 5}'
    )
    command = operations.create_schedule("mine", "orders", "@yearly")
    for client in (operator, http):
        answer = send(client, command, settings=settings)
        assert (answer.status_code, answer.json()["field"]) == (422, "settings")
    with pytest.raises(InvalidValueError, match="settings"):
        run(operations.create_schedule("mine", "orders", "@yearly", None, {field: "emails"}))
    assert run(read.schedules()) == [run(read.schedule("emails-schedule"))]


@pytest.mark.parametrize("queue", ["emails", "penstock.tasks"])
def test_a_schedule_is_moved_only_into_queues_of_the_key(
    operator: httpx.Client, open_client: Open, make_key: MakeKey, run: Any, db: Any,
    orders: Scene, queue: str,
) -> None:  # fmt: skip
    Scene(db, "penstock.tasks")
    move = operations.set_schedule(orders.schedule, {"queue": queue})
    assert send(operator, move).status_code == 403
    # The last of two fields with one name counts, for PostgreSQL and for the check.
    twice = f'{{"queue": "orders", "queue": "{queue}"}}'
    assert send(operator, move, settings=twice).status_code == 403
    change = {"topic": queue}
    assert operator.patch(f"/api/schedules/{orders.schedule}", json=change).status_code == 403
    assert queue_of(run, orders.schedule) == "orders"
    if queue == "penstock.tasks":
        everywhere = open_client(make_key("everywhere", "operate"))
        assert send(everywhere, move).status_code == 403
        assert send(open_client(make_key("boss", "admin")), move).status_code == 200


def test_a_schedule_of_another_queue_is_not_taken_over(
    operator: httpx.Client, run: Any, emails: Scene
) -> None:
    take = operations.set_schedule(emails.schedule, {"queue": "orders"})
    assert send(operator, take).status_code == 403
    path = f"/api/schedules/{emails.schedule}"
    assert operator.patch(path, json={"topic": "orders"}).status_code == 403
    assert queue_of(run, emails.schedule) == "emails"


def test_a_refusal_does_not_say_where_a_schedule_enqueues(
    operator: httpx.Client, http: httpx.Client
) -> None:
    body = {"name": "nightly", "topic": "emails", "cron": "@yearly"}
    assert http.post("/api/schedules", json=body).status_code == 201
    verb = send(operator, operations.pause_schedule("nightly"))
    for answer in (
        operator.get("/api/schedules/nightly"),
        operator.delete("/api/schedules/nightly"),
        operator.get("/schedules/nightly/pause.json"),
        verb,
    ):
        assert answer.status_code == 403
        assert re.search("the (queue|topic) of schedule 'nightly'", answer.json()["detail"])
        assert "emails" not in answer.text


def test_a_page_moves_no_schedule_into_another_queue(
    open_client: Open, make_key: MakeKey, run: Any, orders: Scene, emails: Scene
) -> None:
    browser = open_client()
    browser.post("/login", data={"key": make_key("ada", "operate:orders")})
    page = f"/schedules/{orders.schedule}/edit"
    csrf = re.search(r'name="csrf" value="(\w+)"', browser.get(page).text)
    assert csrf is not None
    form = {"queue": "emails", "cron": "@yearly", "csrf": csrf[1]}
    assert browser.post(page, data=form).status_code == 403
    assert queue_of(run, orders.schedule) == "orders"


def test_a_batch_is_refused_as_a_whole_where_one_message_is_of_another_queue(
    operator: httpx.Client, run: Any
) -> None:
    body = {"topic": "orders", "messages": [{"json": 1}, {"json": 2, "topic": "emails"}]}
    assert operator.post("/api/messages", json=body).status_code == 403
    assert run(read.stats("orders")).ready == 0


def test_leases_are_settled_together_only_if_all_are_of_the_key_s_queues(
    operator: httpx.Client, run: Any, orders: Scene, emails: Scene
) -> None:
    held = [{"id": str(s.lease[0]), **s.lease_body} for s in (orders, emails)]
    assert operator.post("/api/messages/settle", json={"messages": held}).status_code == 403
    assert run(read.stats("orders")).leased == 1


def test_a_message_is_replayed_only_into_queues_of_the_key(
    operator: httpx.Client, run: Any, orders: Scene, emails: Scene
) -> None:
    before = run(read.stats("emails")).ready
    replay = operations.replay(orders.done, "emails")
    assert send(operator, replay).status_code == 403
    path = f"/api/messages/{orders.done}/replay"
    assert operator.post(path, json={"topic": "emails"}).status_code == 403
    assert run(read.stats("emails")).ready == before


def test_what_verbs_do_in_one_call_is_undone_where_one_of_them_is_refused(
    operator: httpx.Client, run: Any, orders: Scene, emails: Scene
) -> None:
    mine = verb_example(operations.pause_schedule(orders.schedule))
    other = verb_example(operations.pause_schedule(emails.schedule))
    calls = {"calls": mine.json["calls"] + other.json["calls"]}
    assert operator.post(mine.path, json=calls, headers=mine.headers).status_code == 403
    assert not run(read.schedule(orders.schedule)).paused


def test_activity_is_shown_for_the_queues_that_a_key_operates(
    operator: httpx.Client, http: httpx.Client, orders: Scene, emails: Scene
) -> None:
    # A schedule may be named like a queue, and is not one.
    body = {"name": "orders", "topic": "emails", "cron": "@yearly"}
    assert http.post("/api/schedules", json=body).status_code == 201
    for topic in ("orders", "emails"):
        http.post(f"/api/topics/{topic}/pause").raise_for_status()
    http.post("/api/admin/delete-reaper/run").raise_for_status()
    seen = operator.get("/api/admin/activity").json()["items"]
    assert [(each["act"], each["target"]) for each in seen] == [("pause", "orders")]
    page = operator.get("/activity.json").json()["activity"]
    assert [each["note"]["target"] for each in page] == ["orders"]
    assert len(http.get("/api/admin/activity").json()["items"]) == 4
    # A page that holds nothing for this key leads on to the next one.
    first = operator.get("/api/admin/activity", params={"limit": 1}).json()
    assert (first["items"], first["next"] is None) == ([], False)


def test_a_worker_is_shown_with_the_queues_that_a_key_reads(
    db: Any, http: httpx.Client, open_client: Open, make_key: MakeKey, orders: Scene
) -> None:
    report = '{"running": 2, "queues": {"orders": {"running": 1}, "emails": {"running": 1}}}'
    db.execute("select penstock.beat('w', 'running', now(), %s::jsonb)", [report])
    http.get("/workers.json").raise_for_status()
    reader = open_client(make_key("reader", "read:orders"))
    [worker] = reader.get("/workers.json").json()["workers"]
    assert list(worker["beat"]["queues"]) == ["orders"]


def test_the_client_over_http_lists_the_queues_of_its_key(
    web: Any, make_key: MakeKey, orders: Scene, emails: Scene
) -> None:
    _ = orders.schedule, orders.lease
    with Client(web.url, make_key("reader", "read:orders")) as client:
        assert [queue.name for queue in client.queues()] == ["orders"]
        assert {each.queue for each in client.schedules()} == {"orders"}
        assert {each.queue for each in client.workers()} == {"orders"}
        with pytest.raises(PermissionDeniedError):
            client.messages()


def test_without_a_queue_messages_of_internal_queues_are_left_out(
    web: Any, make_key: MakeKey, db: Any, orders: Scene
) -> None:
    internal = Scene(db, "penstock.private").everything()
    _ = orders.ready, orders.done
    with Client(web.url, make_key("reader", "read")) as client:
        assert {each.queue for each in client.messages()} == {"orders"}
        assert {each.queue for each in client.messages(state="done")} == {"orders"}
        assert "penstock.private" not in {queue.name for queue in client.queues()}
        with pytest.raises(PermissionDeniedError):
            client.message(internal.ready)
    with Client(web.url, make_key("boss", "admin")) as client:
        assert client.messages("penstock.private")
