"""Type checkers know the arguments and the results of tasks, and report wrong calls."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = Path(__file__).parent / "typed_calls.py"
ROOT = CALLS.parents[2]
WRONG = {
    number
    for number, line in enumerate(CALLS.read_text("utf-8").splitlines(), 1)
    if line.endswith("# wrong")
}


def test_mypy_reports_the_wrong_calls_and_no_others() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(CALLS)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    lines = {int(line) for line in re.findall(r"typed_calls\.py:(\d+): error", said)}
    assert lines == WRONG, said


@pytest.mark.slow
def test_pyright_reports_the_wrong_calls_and_no_others() -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    said = subprocess.run(
        [*command, str(CALLS)], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout
    found = json.loads(said)["generalDiagnostics"]
    lines = {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}
    assert lines == WRONG, said
