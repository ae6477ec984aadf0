"""`penstock worker --reload`: starts the worker again whenever a Python file changes."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

logger = logging.getLogger("penstock.worker")

_PROGRAM: Final = (
    "from penstock.cli import main; from penstock.cli.child_process import end_with_parent; "
    "end_with_parent(); main()"
)
_LOOK_SECONDS: Final = 0.3
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def penstock_command(arguments: Sequence[str]) -> list[str]:
    """The command that runs `penstock` with these arguments until its pipe is closed."""
    return [sys.executable, "-c", _PROGRAM, *arguments]


def run_reloading(command: Sequence[str], directory: Path) -> None:
    """Run a command until SIGTERM or SIGINT, and again after each change in the directory.

    The command calls `end_with_parent`, so it drains before it is replaced. If it ends by itself,
    the next change starts it again.
    """
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.is_set():
        seen = snapshot(directory)
        process = _start(command)
        ended = False
        while not stopped.wait(_LOOK_SECONDS) and (now := snapshot(directory)) == seen:
            if not ended and process.poll() is not None:
                ended = True
                logger.warning("the worker ended; it starts again when a file changes")
        _end(process)
        if not stopped.is_set():
            changed = sorted(str(path) for path, _ in seen.items() ^ now.items())
            logger.info("starting the worker again: %s changed", changed[0])


def snapshot(directory: Path) -> dict[Path, int]:
    """The Python files below a directory, with the times of their last changes."""
    found: dict[Path, int] = {}
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name not in _SKIPPED and name[0] != "."]
        for name in files:
            if name.endswith(".py"):
                path = Path(folder, name)
                try:
                    found[path] = path.stat().st_mtime_ns
                except FileNotFoundError:  # editors replace files
                    continue
    return found


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # In its own session. Otherwise Ctrl-C would reach it twice, and it would not drain.
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The child drains when its pipe is closed, within its grace period."""
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
