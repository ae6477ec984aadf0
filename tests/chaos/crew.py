"""The processes of a run: workers under a supervisor, producers, a proxy."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .server import end, free_port, wait_for_port
from .versions import ROOT, of_version

GRACE_SECONDS = 10
WORKERS = 2
PRODUCERS = 2


class Workers:
    """Processes of `penstock worker`, kept up until `stop`."""

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        place: Path,
        clocks: Sequence[str | None],
        root: Path = ROOT,
    ) -> None:
        self._command = list(command)
        self._root = root
        self._environment = {**os.environ, **environment, **of_version(root)}
        self.log = place / "workers.log"
        self._clocks = [clocks[n % len(clocks)] for n in range(WORKERS)]
        self._stopping = threading.Event()
        self.processes = [self._start(clock) for clock in self._clocks]
        self._watch = threading.Thread(target=self._supervise, daemon=True)
        self._watch.start()

    def _start(self, clock: str | None) -> subprocess.Popen[bytes]:
        environment = self._environment | (faked(clock) if clock else {})
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command, cwd=self._root, env=environment, stdout=log, stderr=log
            )

    def _supervise(self) -> None:
        while not self._stopping.wait(0.2):
            for number, process in enumerate(self.processes):
                if process.poll() is not None:
                    self.processes[number] = self._start(self._clocks[number])

    def kill_one(self) -> None:
        """kill -9, at a moment of no importance."""
        random.choice(self.processes).kill()

    def freeze_one(self, seconds: float) -> None:
        """Stops a process at any point of its work, and lets it continue later."""
        process = random.choice(self.processes)
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self._stopping.set()
        self._watch.join()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            end(process, GRACE_SECONDS + 5)


def faketime_library() -> Path | None:
    """The library alone: the program of that name would stand between us and the worker."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def faked(clock: str) -> dict[str, str]:
    """Only the clock on the wall is wrong; the steady one is the machine's, as it would be."""
    return {
        "LD_PRELOAD": str(faketime_library()),
        "FAKETIME": clock,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


class Producers:
    """Offer a load together; `offer` changes it."""

    def __init__(
        self, dsn: str, queue: str, place: Path, rate: float, made: int, root: Path = ROOT
    ) -> None:
        self.processes = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.chaos.producer", dsn, queue, str(place)),
                    *(str(made + number + 1), str(rate / PRODUCERS)),
                ],
                cwd=root,
                env={**os.environ, **of_version(root)},
                stdin=subprocess.PIPE,
                text=True,
            )
            for number in range(PRODUCERS)
        ]

    def offer(self, rate: float) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(f"{rate / PRODUCERS}\n")
            process.stdin.flush()

    def stop(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes:
            if process.wait(60):
                raise RuntimeError(f"a producer ended with {process.returncode}")


class Proxy:
    """A proxy process before a port: see proxy.py for what it can be told."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.proxy", str(self.port), str(target)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            text=True,
        )
        wait_for_port(self.port)

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end(self._process)
