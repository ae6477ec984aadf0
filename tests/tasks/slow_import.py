"""A task in a process whose module is imported only when the test lets it."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

from penstock import App, RetryPolicy

GATE = "PENSTOCK_TEST_GATE"
LIMIT = 15.0

app = App()

if multiprocessing.parent_process() is not None and GATE in os.environ:
    gate = Path(os.environ[GATE])
    (gate / "begun").touch()
    deadline = time.monotonic() + LIMIT
    while not (gate / "open").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the test did not open the gate")
        time.sleep(0.01)


@app.task(queue="work", process=True, keep_result=True, retry=RetryPolicy(max_attempts=1))
def echo(text: str) -> str:
    return text
