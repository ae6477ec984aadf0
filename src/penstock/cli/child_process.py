"""A process that runs as long as `penstock up`, even if `up` is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# It may be killed at any time, but a clean end is the usual case.
PATIENCE_SECONDS = 3.0
STDIN = 0


@contextmanager
def child_process(module: str, *, dsn: str, home: Path, log: str) -> Iterator[None]:
    """Runs `main` of a module for as long as the body runs. Its output goes to `log` in `home`."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / log).open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", f"import sys, {module} as it; sys.exit(it.main())"],
            env={**os.environ, "PENSTOCK_DSN": dsn, "PENSTOCK_HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield
    finally:
        _end(process)


def end_with_parent() -> None:
    """Call it in the child: it gets SIGTERM when the parent closes the pipe or ends."""

    def watch() -> None:
        # Not through sys.stdin: Python aborts if a thread holds its lock when the process ends.
        while os.read(STDIN, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="penstock parent", daemon=True).start()


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
