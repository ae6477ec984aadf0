"""What becomes of a message, by what its handler does."""

from __future__ import annotations

import threading

from penstock import AsyncClient
from penstock.worker import App, Delivery, Reject, Retry, Snooze, Worker

from .conftest import until


async def test_a_message_is_delivered_to_its_handler_and_acked(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("emails")
    app = App()
    seen: list[Delivery] = []

    @app.handler("emails")
    async def send(message: Delivery) -> None:
        seen.append(message)

    id = await client.enqueue("emails", {"to": "ada"}, headers={"tenant": "a"}, priority=3)
    async with Worker(app, dsn):
        await until(lambda: seen, "the first message")
        later = await client.enqueue("emails", b"bytes")
        await until(lambda: len(seen) == 2, "the second message")
    assert [(each.id, each.payload) for each in seen] == [(id, {"to": "ada"}), (later, b"bytes")]
    assert (seen[0].headers, seen[0].priority, seen[0].attempt) == ({"tenant": "a"}, 3, 1)
    assert seen[0].lease.payload == {"to": "ada"}
    message = await client.message(id)
    assert message.state == "done"


async def test_a_sync_handler_runs_in_a_thread(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("reports")
    app = App()
    threads: list[str] = []

    @app.handler("reports", concurrency=2)
    def write(message: Delivery) -> None:
        threads.append(threading.current_thread().name)

    ids = [await client.enqueue("reports", number) for number in range(5)]
    async with Worker(app, dsn):
        await until(lambda: len(threads) == 5, "five reports")
    assert {name.rpartition("-")[0] for name in threads} == {"penstock-reports"}
    assert {(await client.message(id)).state for id in ids} == {"done"}


async def test_outcomes_decide_what_becomes_of_a_message(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("work", max_attempts=3)
    app = App()
    runs: list[str] = []

    @app.handler("work")
    async def work(message: Delivery) -> object:
        runs.append(message.payload)
        match message.payload:
            case "fail":
                raise ValueError("no such address")
            case "retry":
                raise Retry(after=3600, error="not yet")
            case "snooze":
                return Snooze(3600)
            case "reject":
                raise Reject("malformed")
        return "what a handler returns does not matter"

    names = ["done", "fail", "retry", "snooze", "reject"]
    ids = {name: await client.enqueue("work", name) for name in names}
    async with Worker(app, dsn):
        await until(lambda: len(runs) == 5, "five runs")
    found = {name: await client.message(ids[name]) for name in names}
    assert {name: message.state for name, message in found.items()} == {
        "done": "done",
        "fail": "scheduled",
        "retry": "scheduled",
        "snooze": "scheduled",
        "reject": "dead",
    }
    assert found["fail"].last_error == "ValueError: no such address"
    assert found["retry"].last_error == "not yet"
    assert (found["retry"].attempt, found["snooze"].attempt) == (1, 0)
    assert found["reject"].last_error == "malformed"
