"""Real children, by os.fork, that report what they found."""

from __future__ import annotations

import os
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import Client
from penstock.commands.command import Command, scalar

BACKEND: Command[int] = Command("select pg_backend_pid()", {}, scalar)
ROUNDS = 30


class Child:
    """A forked process that runs a function and sends back what it returned."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: there are threads here
            self.pid = os.fork()
        if self.pid == 0:
            os.close(self._read)
            _report(write, work)
        os.close(write)

    def result(self) -> Any:
        """What the function returned, once the child has ended."""
        with open(self._read, "rb") as pipe:
            report = pipe.read()
        os.waitpid(self.pid, 0)
        assert report, "the child ended without a report"
        outcome, failure = pickle.loads(report)
        assert failure is None, failure
        return outcome


def _report(write: int, work: Callable[[], Any]) -> None:
    outcome, failure = None, None
    try:
        outcome = work()
    except BaseException:
        failure = traceback.format_exc()
    with open(write, "wb") as pipe:
        pipe.write(pickle.dumps((outcome, failure)))
    # Not sys.exit: the rest of the test run belongs to the parent.
    os._exit(0)


def sockets() -> set[str]:
    """The sockets that this process has open."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    # One connection: which one answers says whether it is still the same.
    with Client(dsn, max_size=1) as client:
        client.create_queue("orders")
        yield client


def check_rounds(client: Any, who: str) -> list[int]:
    """Calls whose answers would be mixed up on a shared connection; the ids enqueued."""
    ids = []
    for n in range(ROUNDS):
        ids.append(client.enqueue("orders", f"{who} {n}"))
        assert client.message(ids[-1]).payload == f"{who} {n}"
    return ids


async def check_rounds_async(client: Any, who: str) -> list[int]:
    ids = []
    for n in range(ROUNDS):
        ids.append(await client.enqueue("orders", f"{who} {n}"))
        assert (await client.message(ids[-1])).payload == f"{who} {n}"
    return ids
