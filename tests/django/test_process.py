"""Tasks of a Django project in a process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from django.db import transaction
from psycopg.conninfo import conninfo_to_dict

from penstock import Client, Worker
from penstock.django.testing import run_enqueued
from penstock.errors import MessageNotFoundError

# The child imports the task by the path of this process.
sys.path.append(str(Path(__file__).parent))
from process_task import app, store

from orders.models import Order


async def test_a_task_in_a_process_uses_the_orm(
    project: str, queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = conninfo_to_dict(project)
    monkeypatch.setenv(
        "DATABASE_URL", f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}"
    )
    headers = {"penstock-task": "store"}
    id = await asyncio.to_thread(queue.enqueue, "emails", {"item": "lamp"}, headers=headers)
    async with Worker(app, project):
        assert await store.handle(id).result(60) == 1
    await app.close()


def test_a_task_for_a_process_runs_in_the_transaction_of_a_test(queue: Client) -> None:
    with transaction.atomic():  # as a TestCase
        handle = store.enqueue_sync("lamp")
        [handled] = run_enqueued("emails", app=app)
        assert (handled.lease.id, handled.error) == (handle.id, None)
        assert handle.result_sync(1) == Order.objects.get(item="lamp").pk
        transaction.set_rollback(True)
    assert not Order.objects.exists()
    with pytest.raises(MessageNotFoundError):
        queue.message(handle.id)
