"""docs/reference/worker.md and the guide are run, and say no less than there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from penstock import AsyncClient
from penstock.worker import App, Delivery, Worker
from penstock.worker.metrics import Collector

from .conftest import until

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "worker.md").read_text("utf-8")
GUIDE = (DOCS / "how-to" / "run-a-worker.md").read_text("utf-8")


def code(text: str) -> str:
    blocks = re.findall(r"( *)```python\n(.*?)```", text, re.DOTALL)
    return "\n".join(re.sub(rf"^{indent}", "", body, flags=re.M) for indent, body in blocks)


async def test_the_example_of_the_reference_does_what_it_says(
    dsn: str, client: AsyncClient
) -> None:
    names: dict[str, Any] = {}
    exec(compile(code(REFERENCE), "worker.md", "exec"), names)
    await client.create_queue("emails")
    good = await client.enqueue("emails", {"to": "ada@example.com"})
    bad = await client.enqueue("emails", {"to": "ada"})
    async with Worker(names["app"], dsn) as worker:
        await until(lambda: worker.settled == 2, "both are settled")
    assert (await client.message(good)).last_error == "greylisted"
    assert (await client.message(bad)).state == "dead"


async def test_the_example_of_the_guide_sends_its_mail(
    dsn: str, client: AsyncClient, capsys: Any
) -> None:
    names: dict[str, Any] = {}
    exec(compile(code(GUIDE), "worker.md", "exec"), names)
    await client.create_queue("emails")
    await client.enqueue("emails", {"to": "ada@example.com"})
    async with Worker(names["app"], dsn) as worker:
        await until(lambda: worker.settled == 1, "it is settled")
    assert capsys.readouterr().out == "sending to ada@example.com\n"


async def test_every_metric_and_every_member_of_a_delivery_is_in_the_reference(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("emails")
    app = App()
    app.handler("emails")(lambda message: None)
    async with Worker(app, dsn) as worker:
        families = [family.name for family in Collector(worker).collect()]
    assert len(families) == 9
    assert [name for name in families if name not in REFERENCE] == []
    members = [name for name in dir(Delivery) if not name.startswith("_")]
    assert [
        name for name in members if f"`{name}" not in REFERENCE and f"{name}(" not in REFERENCE
    ] == []
