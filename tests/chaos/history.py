"""The history of a run: what every process saw, line by line, in files that no crash touches.

A line is a kind, numbers, and the time by the machine's steady clock in nanoseconds, which all its
processes share. What is about to be done is written before it is done; what was done, after the
answer. So of two lines the earlier one was true before the later one.

    T nonce group seq        an enqueue is about to be tried; group and seq are 0 for none
    E nonce id               it was committed
    R nonce                  its transaction was rolled back
    C id token sent          claimed, by a call that was sent at that time
    S id token nonce         the handler starts
    F id token               the handler has returned
    > verb id token          the settle is about to be sent
    < verb id token          it was done
    ! verb id token          the lease had been lost

A T with neither E nor R, or a > with no answer, has an unknown result: its connection broke.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class Journal:
    """One process's part. Each `write` is one system call, so it is whole even if we are killed."""

    def __init__(self, place: Path, name: str) -> None:
        path = place / f"{name}-{os.getpid()}-{time.monotonic_ns()}.journal"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, kind: str, rows: Iterable[tuple[Any, ...]]) -> None:
        now = time.monotonic_ns()
        text = "".join(f"{kind} {' '.join(map(str, row))} {now}\n" for row in rows)
        if text:
            os.write(self._file, text.encode())


def lines(place: Path) -> Iterator[list[str]]:
    """Every line of every journal. A last line that was cut short was never written."""
    for path in sorted(place.glob("*.journal")):
        with path.open() as file:
            for line in file:
                if line.endswith("\n"):
                    yield line.split()


def count(place: Path, kind: str) -> int:
    """How many lines of a kind there are so far."""
    return sum(path.read_text().count(f"\n{kind} ") for path in place.glob("*.journal"))
