"""The backend of Django's Tasks."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.test import override_settings
from django.utils import timezone
from tests.django import task_functions as tasks
from tests.django.conftest import LIMIT

from orders.models import Order
from penstock import Client, Worker
from penstock.django import app
from penstock.django import task_api as api
from penstock.django.task_messages import message_priority
from penstock.django.testing import arun_enqueued, run_enqueued
from penstock.errors import MessageNotFoundError

BACKEND = "penstock.django.backend.PenstockBackend"
ONCE = {"default": {"BACKEND": BACKEND, "OPTIONS": {"max_attempts": 1}}}
READY, RUNNING, FAILED, SUCCESSFUL = (
    api.TaskResultStatus[name] for name in ("READY", "RUNNING", "FAILED", "SUCCESSFUL")
)


@pytest.fixture(autouse=True)
def in_project(project: str) -> None:
    """Every test here uses the project."""
    tasks.ran.clear()


def test_a_task_runs_and_its_result_can_be_fetched() -> None:
    result = tasks.add.enqueue(1, two=2)
    assert (result.status, result.args, result.kwargs) == (READY, [1], {"two": 2})
    assert (result.started_at, result.attempts, result.errors) == (None, 0, [])
    assert tasks.add.get_result(result.id) == result
    run_enqueued()
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, 3, 1)
    assert result.worker_ids == ["penstock.testing"]
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at


@pytest.mark.parametrize("use_tz", [True, False])
def test_a_result_can_be_fetched_from_a_queue_without_history(queue: Client, use_tz: bool) -> None:
    backoff = {"kind": "constant", "base_seconds": 0}
    queue.set_queue("default", keep_history=0, backoff=backoff, max_payload_bytes=2**21)
    with override_settings(USE_TZ=use_tz):
        result = tasks.attempts.using(priority=5).enqueue(fail_until=2)
        run_enqueued()
        with pytest.raises(MessageNotFoundError):
            queue.message(int(result.id))
        again = tasks.attempts.get_result(result.id)
        assert (again.status, again.return_value["attempt"]) == (SUCCESSFUL, 2)
        assert (again.args, again.kwargs, again.attempts) == ([], {"fail_until": 2}, 2)
        assert (again.task.priority, again.enqueued_at) == (5, result.enqueued_at)
        assert again.errors == []  # without history, earlier attempts leave nothing
        assert again.enqueued_at <= again.started_at <= again.last_attempted_at
        assert again.last_attempted_at <= again.finished_at
        result.refresh()
        assert result == again
        # The arguments of a large call are not kept with its result.
        large = tasks.measure.enqueue("x" * 1_100_000)
        run_enqueued()
        with pytest.raises(api.TaskResultDoesNotExist):
            tasks.measure.get_result(large.id)


async def test_async_tasks_run_and_are_enqueued_from_async_code() -> None:
    await Order.objects.acreate(email="a", item="b", total=1)
    result = await tasks.count_orders.aenqueue()
    await arun_enqueued()
    await result.arefresh()
    assert (result.status, result.return_value) == (SUCCESSFUL, 1)
    assert await tasks.count_orders.aget_result(result.id) == result


def test_a_task_is_enqueued_with_its_transaction(queue: Client) -> None:
    with transaction.atomic():
        kept = tasks.add.enqueue(1)
        assert queue.stats("default").ready == 0
    with transaction.atomic():
        tasks.add.enqueue(2)
        transaction.set_rollback(True)
    assert [str(lease.id) for lease in queue.claim("default", 10)] == [kept.id]


def test_priorities_are_kept_in_order() -> None:
    given = [0, -100, 100, 1, -1, 12]
    for priority in given:
        result = tasks.add.using(priority=priority).enqueue(priority)
        assert tasks.add.get_result(result.id).task.priority == priority
    run_enqueued()
    assert tasks.ran == sorted(given, reverse=True)


def test_the_priorities_of_messages_cover_those_of_django() -> None:
    mapped = [message_priority(each) for each in range(-100, 101)]
    assert mapped == sorted(mapped)
    assert set(mapped) == set(range(-9, 10))
    assert mapped.count(0) == 1


@pytest.mark.parametrize("use_tz", [True, False])
def test_a_task_does_not_run_before_its_time(use_tz: bool) -> None:
    with override_settings(USE_TZ=use_tz):
        later = (timezone.now() if use_tz else datetime.now()) + timedelta(hours=1)
        result = tasks.add.using(run_after=later).enqueue(1)
        assert tasks.add.get_result(result.id).task.run_after == later
        assert timezone.is_aware(result.enqueued_at) is use_tz
        past = later - timedelta(hours=2)
        tasks.add.using(run_after=past).enqueue(2)
        run_enqueued()
    assert tasks.ran == [2]


def test_a_failed_task_is_tried_again(queue: Client) -> None:
    queue.set_queue("default", backoff={"kind": "constant", "base_seconds": 0})
    result = tasks.attempts.enqueue(3)
    run_enqueued()
    result.refresh()
    assert result.return_value == {"id": result.id, "attempt": 3, "errors": 2}
    assert result.attempts == 3
    assert [error.exception_class for error in result.errors] == [LookupError] * 2
    assert result.errors[0].traceback.endswith("LookupError: attempt 1\n")


def test_between_attempts_a_task_is_ready_and_has_its_errors() -> None:
    result = tasks.fail.enqueue("no")
    run_enqueued()
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (READY, 1, 1)
    with pytest.raises(ValueError, match="has not finished"):
        _ = result.return_value


@override_settings(TASKS=ONCE)
@pytest.mark.parametrize(
    ("task", "args", "error"),
    [
        (tasks.fail, ("first line\n\nand: another",), ValueError),
        (tasks.leave, (), SystemExit),
        (tasks.return_something_else, (), TypeError),
    ],
)
def test_a_task_fails_after_its_last_attempt(task: Any, args: Any, error: type) -> None:
    result = task.enqueue(*args)
    run_enqueued()
    result.refresh()
    assert (result.status, result.attempts) == (FAILED, 1)
    assert [each.exception_class for each in result.errors] == [error]
    assert result.finished_at >= result.started_at
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_a_result_that_no_task_can_return_is_not_tried_again() -> None:
    result = tasks.return_something_else.enqueue()
    run_enqueued()
    result.refresh()
    assert (result.status, result.attempts) == (FAILED, 1)


def test_a_task_may_raise_the_outcomes_of_handlers(queue: Client) -> None:
    result = tasks.ask_for_another_attempt.enqueue()
    run_enqueued()
    assert queue.message(int(result.id)).state == "scheduled"


def test_a_cancelled_task_has_failed(queue: Client) -> None:
    result = tasks.add.enqueue(1)
    queue.cancel(int(result.id))
    result.refresh()
    assert result.status == FAILED
    assert "cancelled" in result.errors[0].traceback


@pytest.mark.parametrize("id", ["", "1.5", "123456789", "x", str(2**70)])
def test_a_result_that_does_not_exist_is_not_found(id: str) -> None:
    with pytest.raises(api.TaskResultDoesNotExist):
        tasks.add.get_result(id)


def test_other_messages_are_not_results(queue: Client) -> None:
    id = queue.enqueue("default", {"args": []})
    with pytest.raises(api.TaskResultDoesNotExist):
        tasks.add.get_result(str(id))
    with pytest.raises(Exception, match="does not match"):
        tasks.fail.get_result(tasks.add.enqueue(1).id)


def forged(queue: Client, path: str) -> int:
    sent = {"backend": "default", "priority": 0, "run_after": None}
    headers = {"penstock-task": path, "django-task": sent}
    return queue.enqueue("default", {"args": [], "kwargs": {}}, headers=headers)


def test_a_message_that_names_no_task_is_never_called(queue: Client) -> None:
    id = forged(queue, "tests.django.task_functions.not_a_task")
    with pytest.raises(SuspiciousOperation, match="does not point to a Task"):
        tasks.add.get_result(str(id))
    run_enqueued(raise_errors=False)
    assert queue.message(id).state == "dead"
    assert tasks.ran == []


@pytest.mark.parametrize("path", ["antigravity.fly", "absent.task", "orders.absent.task", "x", ""])
def test_a_message_imports_no_module_outside_of_the_apps(queue: Client, path: str) -> None:
    import sys

    id = forged(queue, path)
    run_enqueued()
    assert queue.message(id).state == "scheduled"  # left to other workers
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("payload", [None, [], {"args": 1, "kwargs": []}, "text"])
def test_a_message_with_other_arguments_becomes_a_dead_letter(queue: Client, payload: Any) -> None:
    sent = {"backend": "default", "priority": "high", "run_after": "soon"}
    headers = {"penstock-task": "tests.django.task_functions.add", "django-task": sent}
    id = queue.enqueue("default", payload, headers=headers, max_attempts=1)
    run_enqueued(raise_errors=False)
    assert queue.message(id).state == "dead"
    assert tasks.ran == []


@pytest.mark.parametrize("name", ["Upper", "a.dlq", "x" * 129, "a b"])
def test_a_name_that_no_queue_has_is_refused(name: str) -> None:
    with (
        override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": []}}),
        pytest.raises(api.InvalidTask, match="not a name of a queue"),
    ):
        tasks.add.using(queue_name=name)


def test_arguments_that_json_cannot_carry_are_refused(queue: Client) -> None:
    with pytest.raises(TypeError):
        tasks.add.enqueue(object())
    assert queue.stats("default").ready == 0


def test_checks_report_wrong_options() -> None:
    assert list(api.task_backends["default"].check()) == []
    options = {"max_attempts": 0, "retries": 3}
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": options}}):
        found = api.task_backends["default"].check()
    assert [each.id for each in found] == ["penstock.E102"] * 2
    with override_settings(INSTALLED_APPS=[]):
        assert [each.id for each in api.task_backends["default"].check()] == ["penstock.E101"]


def test_signals_are_sent() -> None:
    seen: list[tuple[str, str]] = []

    def note(name: str) -> Any:
        def receive(task_result: Any, **_: Any) -> None:
            Order.objects.count()  # receivers may use the ORM
            seen.append((name, task_result.status))

        return receive

    signals = {
        "enqueued": api.task_enqueued,
        "started": api.task_started,
        "finished": api.task_finished,
    }
    receivers = {name: note(name) for name in signals}
    for name, signal in signals.items():
        signal.connect(receivers[name])
    try:
        tasks.add.enqueue(1)
        tasks.count_orders.enqueue()
        run_enqueued()
    finally:
        for name, signal in signals.items():
            signal.disconnect(receivers[name])
    runs = [("started", RUNNING), ("finished", SUCCESSFUL)]
    assert seen == [("enqueued", READY)] * 2 + runs * 2


async def test_a_worker_runs_them(project: str, queue: Client) -> None:
    app.serve_django_tasks()
    async with Worker(app, project, queues=["default"], name="shop"):
        one = await tasks.add.aenqueue(1)
        other = await tasks.count_orders.aenqueue()
        async with asyncio.timeout(LIMIT):
            while not (one.is_finished and other.is_finished):
                await one.arefresh()
                await other.arefresh()
    assert (one.return_value, other.return_value) == (1, 0)
    assert one.worker_ids == ["shop"]
