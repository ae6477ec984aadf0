"""Tasks of Django's Tasks, for tests."""

from __future__ import annotations

from typing import Any

from orders.models import Order
from penstock.worker import Retry

try:
    from django.tasks import TaskContext, task
except ImportError:
    from django_tasks import TaskContext, task  # type: ignore[assignment]

ran: list[Any] = []


@task
def add(one: int, two: int = 0) -> int:
    ran.append(one)
    return one + two


@task
def measure(text: str) -> int:
    return len(text)


@task
async def count_orders() -> int:
    return await Order.objects.acount()


@task(takes_context=True)
def attempts(context: TaskContext, fail_until: int) -> dict[str, Any]:
    if context.attempt < fail_until:
        raise LookupError(f"attempt {context.attempt}")
    result = context.task_result
    return {"id": result.id, "attempt": context.attempt, "errors": len(result.errors)}


@task
def fail(text: str) -> None:
    raise ValueError(text)


@task
def leave() -> None:
    raise SystemExit(3)


@task
def return_something_else() -> object:
    return object()


@task
def ask_for_another_attempt() -> None:
    raise Retry(after=3600)


def not_a_task() -> None:
    ran.append("not a task")
