"""One peer in the run: its two processes, its numbers, and one window of its work."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from penstock_benchmarks.peers.database import Database
from penstock_benchmarks.peers.process import HERE, Host, HostError, command

# The first part of a drain is not counted: caches still hold another peer, the worker just began.
RAMP = 0.15
SETTLE_SECONDS = 5.0


def names() -> dict[str, Path]:
    """Every adapter by the name it goes by."""
    found = [*HERE.glob("adapters/*.py"), *HERE.glob("adapters/*.mjs")]
    return {path.stem.replace("_", "-"): path for path in sorted(found) if path.stem != "__init__"}


@dataclass
class Contender:
    name: str
    adapter: Path
    database: Database
    log: IO[bytes]
    rates: dict[tuple[int, float], float] = field(default_factory=dict)
    next_number: int = 1
    failures: int = 0

    def open(self) -> None:
        self.producer = self._host("producer")
        self.about: dict[str, Any] = self.producer.call("describe")
        self.producer.call("install")
        self.producer.call("open")
        self.worker = self._host("worker")
        self.worker.call("open")

    def _host(self, role: str) -> Host:
        return Host(command(self.adapter, role, self.database.dsn), self.log)

    def replace_worker(self) -> None:
        """A new process in place of one that was killed."""
        self.worker = self._host("worker")
        self.worker.call("open")

    def reopen(self) -> None:
        """Start both processes again, after a fault that may have ended them."""
        self.producer.kill()
        self.worker.kill()
        self.producer = self._host("producer")
        self.producer.call("open")
        self.replace_worker()

    def kill(self) -> None:
        """Fail the callers that wait for a response of one of them."""
        for host in (self.producer, self.worker):
            host.kill()

    def close(self) -> None:
        for host in (self.producer, self.worker):
            host.end()

    @property
    def kind(self) -> str:
        return str(self.about["kind"])

    def takes_part(self, part: str) -> bool:
        return part in (self.about.get("parts") or [part])

    @property
    def relations(self) -> list[str]:
        return list(self.about["relations"])

    def take_numbers(self, count: int) -> int:
        """The first of so many numbers that no message has had yet."""
        first, self.next_number = self.next_number, self.next_number + count
        return first

    def load(self, count: int, *, delay_seconds: int = 0, seconds: float = 60.0) -> int:
        first = self.take_numbers(count)
        arguments = {"first": first, "count": count, "delay_seconds": delay_seconds}
        loaded: int = self.producer.call("load", timeout=seconds + 60, seconds=seconds, **arguments)
        return loaded

    def start(
        self,
        concurrency: int,
        *,
        handler_ms: float = 0,
        expect: int = 0,
        mark: int = 0,
        ledger: str | None = None,
        rescue_seconds: int | None = None,
    ) -> None:
        self.worker.call(
            "start",
            concurrency=concurrency,
            handler_ms=handler_ms,
            expect=expect,
            mark=mark,
            ledger=ledger,
            rescue_seconds=rescue_seconds,
        )

    def stop(self) -> None:
        self.worker.call("stop", timeout=30)

    def settled_at(self) -> float | None:
        """When nothing due was left unsettled; None if that did not come about in time."""
        until = time.monotonic() + SETTLE_SECONDS
        while (asked_at := time.monotonic()) < until:
            if not self.producer.call("unfinished"):
                return asked_at
            time.sleep(0.005)
        return None

    def drain(
        self, concurrency: int, count: int, seconds: float, *, handler_ms: float = 0
    ) -> dict[str, Any]:
        """Load so many, work them off, and say how fast; `seconds` is the longest it may take."""
        # Autovacuum comes once a minute, to whom it may: here all begin their turn as it would
        # have left them.
        self.database.vacuum(self.relations)
        before = self.database.gauges()
        loaded = self.load(count)
        between = self.database.gauges()
        self.database.analyze(self.relations)
        mark = max(1, int(loaded * RAMP))
        self.start(concurrency, handler_ms=handler_ms, expect=loaded, mark=mark)
        # Costs count from here, because the start of a worker does not belong to a message.
        started = self.database.gauges()
        cpu_before = self.worker.call("cpu")
        early = self.worker.call("progress")["handled"]
        seen = self.worker.call("wait", seconds=seconds, timeout=seconds + 30)
        in_time = seen["done_at"] is not None
        ended_at = self.settled_at() if in_time else seen["now"]
        after = self.database.gauges()
        cpu_after = self.worker.call("cpu")
        weight = self.database.weight(self.relations)
        self.stop()
        if in_time:
            seen = self.worker.call("progress")
        else:
            self.producer.call("purge")
        counted = min(seen["handled"], loaded) - mark
        row: dict[str, Any] = {
            "concurrency": concurrency,
            "handler_ms": handler_ms,
            "messages": loaded,
            "handled": seen["handled"],
            "doubled": seen["handled"] - seen["distinct"],
            "lost": loaded - seen["distinct"] if in_time else None,
            "settled": ended_at is not None and in_time,
            "rate": None,
            "early": early,
            "enqueue_rate": loaded / (between.at - before.at),
            "worker_cpu_seconds": cpu_after - cpu_before,
            "enqueue": between.since(before),
            "start": started.since(between),
            "work": after.since(started),
            **weight,
        }
        if seen["mark_at"] is not None and ended_at is not None and counted > 0:
            row["rate"] = counted / (ended_at - seen["mark_at"])
        if seen["done_at"] is not None and ended_at is not None:
            row["settle_seconds"] = ended_at - seen["done_at"]
        return row

    def drain_for(
        self, concurrency: int, seconds: float, patience: float, *, handler_ms: float = 0
    ) -> dict[str, Any]:
        """A drain of about this long, by what the last one of its kind has shown."""
        key = (concurrency, handler_ms)
        rate = self.rates.get(key)
        if rate is None and handler_ms and (concurrency, 0) in self.rates:
            # Handlers that take a while: as fast as without, or as they allow.
            rate = min(self.rates[concurrency, 0], 0.8 * concurrency / handler_ms * 1000)
        elif rate is None:
            rate = self._probe(concurrency, handler_ms)
        count = max(50, round(rate * seconds))
        row = self.drain(concurrency, count, patience, handler_ms=handler_ms)
        self.rates[key] = row["rate"] or max(10.0, rate / 3)
        return row

    def _probe(self, concurrency: int, handler_ms: float) -> float:
        """A first idea of its pace: of a few messages, and of more if it is fast."""
        rate, count, most = 10.0, 100, 1.5
        while count > 0:
            row = self.drain(concurrency, count, most, handler_ms=handler_ms)
            rate = row["rate"] or max(10.0, row["handled"] / most)
            count = round(rate / 2) if rate / 2 > 2 * count else 0
        return rate


__all__ = ["Contender", "HostError", "names"]
