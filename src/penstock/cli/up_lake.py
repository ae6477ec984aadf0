"""The lake of `penstock up`. A separate process updates it every minute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from penstock.cli.child_process import child_process, end_with_parent
from penstock.errors import PenstockError
from penstock.settings import lake_path
from penstock.spark.java import find_java

EVERY = "60s"
_POLITENESS = 10


def why_not() -> str | None:
    """The reason why a lake cannot run, or None if it can."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return 'Spark is not installed: pip install "penstock[spark]"'
    try:
        find_java()
    except PenstockError as error:
        return str(error)
    return None


@contextmanager
def running_lake(dsn: str, home: Path) -> Iterator[str]:
    """The path of the lake. The output of its process is in lake.log."""
    with child_process("penstock.cli.up_lake", dsn=dsn, home=home, log="lake.log"):
        yield lake_path(environment={**os.environ, "PENSTOCK_HOME": str(home)})


def main() -> int:
    """The separate process, at low priority. It ends when `up` ends."""
    from penstock.cli.program import run

    os.nice(_POLITENESS)
    end_with_parent()
    return run(["lake", "run", "--every", EVERY, "--refresh-every", EVERY])
