"""The programs that check deploy/, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
# `make test-deploy` sets it: there, a program that is missing is a failure.
REQUIRED = os.environ.get("PENSTOCK_TEST_DEPLOY") == "1"


def program(name: str, install: str) -> str:
    """Its path; the test is skipped if it is missing."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if found is None and REQUIRED:
        pytest.fail(f"{name} is missing: {install}")
    if found is None:
        pytest.skip(f"needs {name}: {install}")
    return found


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a program that must succeed; what it printed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
