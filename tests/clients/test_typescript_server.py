"""The client for TypeScript against a real server. `make test-typescript` builds it first."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import make_key, run, start_server, web

__all__ = ["make_key", "run", "start_server", "web"]
PACKAGE = Path(__file__).parents[2] / "clients" / "typescript"
pytestmark = pytest.mark.skipif(
    "PENSTOCK_TEST_TYPESCRIPT" not in os.environ,
    reason="needs Node.js and npm: run `make test-typescript`",
)


# Deno comes from npm, too. It may reach the server and read the files, and nothing else.
RUNTIMES = {
    "node": ["node"],
    "deno": [
        "node_modules/.bin/deno",
        "run",
        "--no-check",
        "--allow-net=127.0.0.1",
        "--allow-read",
    ],
}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_client_and_its_worker_do_everything_in_the_scenario(
    web: Any, make_key: Callable[..., str], runtime: str
) -> None:
    key = make_key("scenario", "admin")
    done = subprocess.run(
        [*RUNTIMES[runtime], "test/scenario.mjs", web.url, key],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    print(f"{runtime}:\n{done.stderr}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == '{"handled":300}'
