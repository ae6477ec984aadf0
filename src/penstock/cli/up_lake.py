"""The lake beside `penstock up`: brought up to date every minute, by a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import PenstockError
from penstock.lake.java import find_java
from penstock.settings import lake_path

EVERY = "60s"
# It may be killed anywhere; this is so that it mostly need not be.
PATIENCE_SECONDS = 3.0
_POLITENESS = 10


def why_not() -> str | None:
    """What is missing for a lake, in words; None if it can run."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return 'Spark is not installed: pip install "penstock[spark]"'
    try:
        find_java()
    except PenstockError as error:
        return str(error)
    return None


@contextmanager
def running_lake(dsn: str, home: Path) -> Iterator[str]:
    """Where the lake is. What its process says is in lake.log."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lake.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.up_lake"],
            env={**os.environ, "PENSTOCK_DSN": dsn, "PENSTOCK_HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield lake_path(environment={**os.environ, "PENSTOCK_HOME": str(home)})
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _main() -> int:
    """That process: after everybody else, and not longer than `up`, however that ends."""
    from penstock.cli.program import run

    os.nice(_POLITENESS)

    def watch() -> None:
        sys.stdin.buffer.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="beside up", daemon=True).start()
    return run(["lake", "run", "--every", EVERY, "--refresh-every", EVERY])


if __name__ == "__main__":
    sys.exit(_main())
