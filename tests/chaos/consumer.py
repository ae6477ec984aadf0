"""The application that the workers of the chaos suite run, and the journal of what they do.

`penstock worker tests.chaos.consumer:app`. The journal is kept at the one place where the worker
meets the database, its ReconnectingConnection, and around the handler.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Any

from penstock.commands.command import Command
from penstock.db.reconnecting import ANSWER_SECONDS, ReconnectingConnection
from penstock.worker import App, Delivery

from .history import Journal

QUEUE = os.environ["CHAOS_QUEUE"]
journal = Journal(Path(os.environ["CHAOS_PLACE"]), "worker")
app = App()


@app.handler(QUEUE)
async def work(message: Delivery) -> None:
    """Mostly quick; now and then slow, slower than the lease, or failing the first time."""
    journal.write("S", [(message.id, message.token, message.payload["n"])])
    chance = random.random()
    if chance < 0.02 and message.attempt == 1:
        raise RuntimeError("as it happens")
    if chance > 0.999:
        await asyncio.sleep(4)
    elif chance > 0.97:
        await asyncio.sleep(random.uniform(0.001, 0.1))
    journal.write("F", [(message.id, message.token)])


_run = ReconnectingConnection.run


async def _journaled(
    self: ReconnectingConnection, command: Command[Any], timeout: float = ANSWER_SECONDS
) -> Any:
    """Claims are noted when they come, settles before they are sent and when they are answered."""
    verb = _settling(command)
    sent = time.monotonic_ns()
    if verb is None:
        answer = await _run(self, command, timeout)
        journal.write("C", [(row[0], row[1], sent) for row in _claimed(answer)])
        return answer
    pairs = list(zip(*(_numbers(command.params[name]) for name in ("ids", "tokens")), strict=True))
    journal.write(">", [(verb, *pair) for pair in pairs])
    answer = await _run(self, command, timeout)
    journal.write("<", [(verb, *pair) for pair in pairs if pair[0] in answer])
    journal.write("!", [(verb, *pair) for pair in pairs if pair[0] not in answer])
    return answer


def _settling(command: Command[Any]) -> str | None:
    found = [v for v in ("ack", "nack", "snooze", "reject") if f".{v}_many(" in command.sql]
    return found[0] if found else None


def _numbers(array: Any) -> list[int]:
    """The worker writes some arrays as PostgreSQL reads them: {1,2}."""
    return [int(part) for part in array.strip("{}").split(",")] if isinstance(array, str) else array


def _claimed(answer: Any) -> list[Any]:
    """The rows of a claim of one queue, or of a look at several; other commands have none."""
    if isinstance(answer, dict):
        return [row for each in answer.values() for row in getattr(each, "rows", [])]
    if isinstance(answer, list):
        return [row for row in answer if len(row) > 10]
    return []


ReconnectingConnection.run = _journaled  # type: ignore[method-assign]
