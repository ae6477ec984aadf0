"""The server keeps the promises of its OpenAPI document for every request: schemathesis makes
up calls from the document, right ones and wrong ones, and checks every answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOOKS = "tests.server.schemathesis_hooks"
ROOT = Path(__file__).parents[2]
LONG = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    ("phases", "examples", "cases"),
    [
        pytest.param("examples,fuzzing", 3, 130, id="short"),
        pytest.param("examples,coverage,fuzzing", 200, 10_000, id="long", marks=LONG),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["with a key", "without"])
def test_every_answer_is_as_documented(
    start_process: Callable[..., Any],
    make_key: Callable[..., str],
    tmp_path: Path,
    phases: str,
    examples: int,
    cases: int,
    known: bool,
) -> None:
    # It sends wrong keys by the hundred, and wants a 401 each time.
    process = start_process(PENSTOCK_HTTP_AUTH_FAILURES="1000000")
    credentials = [f"--header=Authorization: Bearer {make_key('admin', 'admin')}"]
    command = [
        Path(sys.executable).with_name("schemathesis"),
        "run",
        f"{process.url}/openapi.json",
        *(credentials if known else []),
        "--checks=all",
        f"--phases={phases}",
        f"--max-examples={examples}",
        "--generation-allow-x00=false",  # PostgreSQL cannot hold it: a 422, by no schema's fault
        "--request-timeout=60",
        "--continue-on-failure",
        "--no-color",
        # New calls every time only where there is time to look into what they find.
        *([] if "coverage" in phases else ["--generation-deterministic"]),
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated, done.stdout[-2_000:]
    if known:
        assert int(generated[1]) >= cases
    assert process.popen.poll() is None
