"""The contenders of a run, the measurements, and a way to continue when one of them fails."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from penstock_benchmarks.peers.contender import Contender, HostError
from penstock_benchmarks.peers.database import Database
from penstock_benchmarks.peers.plan import Plan

Row = dict[str, Any]

# Who fails so often in a row is left out of the rest: a peer that hangs must not eat the run.
FAILURES = 3


@dataclass
class Run:
    database: Database
    contenders: list[Contender]
    plan: Plan
    say: Callable[[str], None]
    part: str = ""
    """The scenario that is being measured, by the name it is asked for with."""

    rows: list[Row] = field(default_factory=list)
    on_row: Callable[[], None] = lambda: None
    started: float = field(default_factory=time.monotonic)

    def turns(self, round_number: int) -> Iterator[Contender]:
        """All contenders, each time in another order: what the machine does falls on all alike."""
        those = [contender for contender in self.contenders if contender.takes_part(self.part)]
        shift = round_number % len(those)
        turned = those[shift:] + those[:shift]
        yield from turned if round_number % 2 == 0 else reversed(turned)

    @property
    def workers(self) -> list[Contender]:
        return [contender for contender in self.contenders if contender.kind == "worker"]

    def measure(
        self,
        contender: Contender,
        scenario: str,
        round_number: int,
        work: Callable[[], Row],
        limit_seconds: float | None = None,
    ) -> Row:
        """One row. A peer that fails gets its error into the row, and another chance later."""
        began = time.monotonic()
        row: Row = {"peer": contender.name, "scenario": scenario, "round": round_number}
        row["part"] = self.part
        try:
            if contender.failures >= FAILURES:
                raise HostError(f"left out after {FAILURES} failures in a row")
            with self._limited(contender, limit_seconds or self.plan.limit_seconds):
                row |= work()
            contender.failures = 0
        except (HostError, OSError, psycopg.Error) as error:
            row["error"] = str(error)
            contender.failures += 1
            if contender.failures <= FAILURES:
                self._recover(contender)
        row["at"] = round(began - self.started, 2)
        row["took"] = round(time.monotonic() - began, 2)
        self.rows.append(_rounded(row))
        self.say(_line(row))
        self.on_row()
        return row

    @contextlib.contextmanager
    def _limited(self, contender: Contender, seconds: float) -> Iterator[None]:
        """A peer that takes longer is killed, and calls that wait for it fail."""
        over = threading.Event()

        def kill() -> None:
            over.set()
            contender.kill()

        timer = threading.Timer(seconds, kill)
        timer.start()
        try:
            yield
        except HostError as error:
            if over.is_set():
                raise HostError(f"took longer than {seconds:g} s ({error})") from None
            raise
        finally:
            timer.cancel()

    def _recover(self, contender: Contender) -> None:
        with contextlib.suppress(HostError, OSError), self._limited(contender, 60):
            contender.reopen()
            contender.producer.call("purge")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return value


def _line(row: Row) -> str:
    parts = [f"{row['scenario']:<16} {row['peer']:<16}"]
    if row.get("error"):
        return f"{parts[0]} failed: {row['error'][:120]}"
    if row.get("rate"):
        parts.append(f"{row['rate']:>9,.0f}/s")
    if row.get("p99") is not None:
        parts.append(f"p50 {row['p50']:.1f} ms  p99 {row['p99']:.1f} ms")
    if row.get("recovery") is not None:
        parts.append(f"recovery {row['recovery']:.2f}")
    for key in ("lost", "doubled"):
        if row.get(key):
            parts.append(f"{key} {row[key]}")
    return "  ".join(parts)
