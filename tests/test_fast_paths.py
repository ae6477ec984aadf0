"""The fast paths are fenced: internals of psycopg and uvicorn are used in one module each."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.settings import fast_paths

SOURCES = Path(__file__).parent.parent / "src" / "penstock"


def using(pattern: str) -> set[str]:
    found = re.compile(pattern)
    return {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if found.search(path.read_text("utf-8"))
    }


def test_one_module_uses_internals_of_psycopg() -> None:
    internals = r"\.pgconn\b|psycopg\._|import .*generators|Transformer|error_from_result"
    assert using(internals) == {"db/fast_execute.py"}
    assert using(r"fast_execute") == {"db/execute.py"}


def test_one_module_uses_internals_of_uvicorn() -> None:
    assert using(r"uvicorn\._|uvicorn\.protocols|penstock\.cycle") == {
        "server/transport/protocol.py"
    }


def foreign_privates(path: Path) -> set[str]:
    """The attributes with an underscore of objects other than `self`, as `object.attribute`."""
    return {
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and re.match(r"_[a-z]", node.attr)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }


def test_modules_next_to_psycopg_and_uvicorn_use_no_private_attributes() -> None:
    used = {
        str(path.relative_to(SOURCES)): found
        for folder in ("db", "server/transport", "client", "http_client")
        for path in (SOURCES / folder).rglob("*.py")
        if (found := foreign_privates(path))
    }
    assert used == {
        # Our own interface, whose name keeps it out of the methods of public classes.
        "db/forks.py": {"holder._after_fork"},
        "server/transport/protocol.py": {"super()._start_asgi_task"},
    }


@pytest.mark.parametrize(("value", "fast"), [("", True), (" on ", True), ("off", False)])
def test_the_environment_chooses(value: str, fast: bool) -> None:
    assert fast_paths({"PENSTOCK_FAST_PATHS": value}) is fast
    assert fast_paths({}) is True


def test_another_word_is_refused_with_those_that_are_allowed() -> None:
    with pytest.raises(ConfigurationError, match="PENSTOCK_FAST_PATHS is 'yes'") as caught:
        fast_paths({"PENSTOCK_FAST_PATHS": "yes"})
    assert "on or off" in str(caught.value.hint)


@pytest.mark.parametrize(("value", "kind"), [("on", "FastExecutor"), ("off", "PlainExecutor")])
def test_a_process_uses_what_its_environment_says(value: str, kind: str) -> None:
    program = "from penstock.db.execute import executor; print(type(executor(None, 0)).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PENSTOCK_FAST_PATHS": value, "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == kind
