"""`penstock worker --reload`: for development."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from penstock import Client
from penstock.cli.reloading import snapshot

LIMIT = 60.0
APP = """
from penstock import App
app = App()

@app.handler("work")
async def work(message):
    with open("seen", "a") as file:
        file.write("{word}\\n")
"""


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, f"not within {LIMIT} s: {what}"
        time.sleep(0.02)


def test_a_changed_file_starts_the_worker_again(dsn: str, tmp_path: Path) -> None:
    module, seen = tmp_path / "reloaded_app.py", tmp_path / "seen"
    module.write_text(APP.replace("{word}", "old"))
    command = [sys.executable, "-m", "penstock.cli", "worker", "reloaded_app", "--reload"]
    with Client(dsn, max_size=1) as client:
        client.create_queue("work")
        client.enqueue("work", 1)
        environment = {**os.environ, "PENSTOCK_DSN": dsn, "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
        ) as process:
            until(seen.exists, "the first message")
            module.write_text("def")  # a mistake is survived
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            said = []
            for line in lines:
                said.append(line)
                if "starts again when a file changes" in line:
                    break
            text = "".join(said)
            assert "module 'reloaded_app' cannot be imported: SyntaxError" in text
            assert "Fatal" not in text
            module.write_text(APP.replace("{word}", "new"))
            client.enqueue("work", 2)
            until(lambda: seen.read_text() == "old\nnew\n", "the second message")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT)
        assert process.returncode == 0


def test_only_python_files_of_the_application_are_watched(tmp_path: Path) -> None:
    for name in ("a.py", "b.txt", ".venv/c.py", "sub/__pycache__/d.py", "sub/e.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert {path.name for path in snapshot(tmp_path)} == {"a.py", "e.py"}
