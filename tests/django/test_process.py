"""Tasks of a Django project in a process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock import Client, Worker

# The child imports the task by the path of this process.
sys.path.append(str(Path(__file__).parent))
from process_task import app, store


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
