"""docs/reference/tasks.md is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from penstock import AsyncClient, Worker
from penstock.testing import drain_async

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "tasks.md").read_text("utf-8")


@pytest.fixture
async def names(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the Python of the page defines, with its database in the environment."""
    monkeypatch.setenv("PENSTOCK_DSN", dsn)
    code = "\n".join(re.findall(r"```python\n(.*?)```", REFERENCE, re.DOTALL))
    names: dict[str, Any] = {}
    exec(compile(code, "tasks.md", "exec"), names)
    yield names
    await names["app"].close()


async def test_the_examples_do_what_they_say(
    dsn: str, names: dict[str, Any], client: AsyncClient
) -> None:
    for queue in ("emails", "reports"):
        await client.create_queue(queue)
    await names["sign_up"](UUID(int=1))
    [sql] = re.findall(r"```sql\n(.*?);\n```", REFERENCE, re.DOTALL)
    async with client._connections.borrow(None) as connection:
        await connection.execute(sql)
    handled = await drain_async(names["app"], client)
    assert [each.error for each in handled] == [None, None]
    assert (await client.stats("emails")).scheduled == 1
    async with Worker(names["app"], dsn):
        assert await names["count"]("one two three") == 3


def test_every_option_of_a_task_is_on_the_page(names: dict[str, Any]) -> None:
    import inspect

    options = [*inspect.signature(names["app"].task).parameters]
    assert [name for name in options if f"`{name}`" not in REFERENCE] == []
