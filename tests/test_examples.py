"""The applications in examples/ pass their own tests, and type checkers know their tasks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

EXAMPLES = Path(__file__).parents[1] / "examples"
PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
# One of them is a part of `make test`. The others, and the one for Django, run in `make test-long`.
APPS = (
    "fastapi_app",
    pytest.param("asyncpg_app", marks=pytest.mark.slow),
    pytest.param("sqlalchemy_app", marks=pytest.mark.slow),
)


def run(directory: Path, dsn: str, *command: str) -> None:
    parts = conninfo_to_dict(dsn)
    query = f"host={parts['host']}&port={parts.get('port', '')}"
    sqlalchemy = f"postgresql+psycopg://{parts['user']}@/{parts['dbname']}?{query}"
    done = subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**os.environ, "DATABASE_URL": dsn, "SQLALCHEMY_URL": sqlalchemy, **PLAIN},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("app", APPS)
def test_an_example_passes_its_tests(app: str, dsn: str) -> None:
    # Without the settings and plugins of Penstock's tests.
    options = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "-W", "error"]
    run(EXAMPLES / app, dsn, "-m", "pytest", *options, str(EXAMPLES / app))


@pytest.mark.slow
def test_the_django_example_passes_its_tests(empty_dsn: str) -> None:
    name = f"test_{conninfo_to_dict(empty_dsn)['dbname']}"
    try:
        run(EXAMPLES / "django_app", empty_dsn, "-W", "error", "manage.py", "test", "--noinput")
    finally:
        with psycopg.connect(empty_dsn, autocommit=True) as admin:
            admin.execute(f"drop database if exists {name} with (force)")


WRONG = {
    "asyncpg_app": ("accounts", "send_welcome", ['send_welcome.enqueue("ada")']),
    "fastapi_app": ("app", "find_price", ["find_price.enqueue(1)", "find_price.enqueue()"]),
    "sqlalchemy_app": (
        "payments",
        "charge",
        ['charge.enqueue_sync(1, "2")', "charge.enqueue_sync(1)"],
    ),
    "django_app": (
        "orders.tasks",
        "send_receipt",
        ['send_receipt.enqueue_sync("1", 2)', "send_receipt.enqueue_sync(order=1)"],
    ),
}
MYPY = {"django_app": ["--config-file", "mypy.ini"]}


def calls_file(app: str, directory: Path) -> Path:
    """Calls of the tasks of an example. The wrong ones come last, one in a line."""
    module, name, wrong = WRONG[app]
    lines = [f"from {module} import {name}", f"reveal_type({name})", *wrong]
    path = directory / f"calls_of_{app}.py"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.mark.parametrize(
    "app",
    [pytest.param(app, marks=[] if app == "fastapi_app" else [pytest.mark.slow]) for app in WRONG],
)
def test_mypy_accepts_an_example_and_reports_wrong_calls_of_its_tasks(
    app: str, tmp_path: Path
) -> None:
    calls = calls_file(app, tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    done = subprocess.run(
        [*command, *MYPY.get(app, []), ".", str(calls)],
        cwd=EXAMPLES / app,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^(.+?):(\d+): error", done.stdout, re.MULTILINE)
    expected = [(calls.name, 3 + n) for n in range(len(WRONG[app][2]))]
    assert sorted({(Path(p).name, int(n)) for p, n in found}) == expected, done.stdout + done.stderr


@pytest.mark.slow
def test_pyright_accepts_the_examples_and_reports_wrong_calls_of_their_tasks(
    tmp_path: Path,
) -> None:
    calls = [calls_file(app, tmp_path) for app in WRONG]
    roots = [{"root": str(EXAMPLES / app)} for app in WRONG]
    config = {
        "include": [str(EXAMPLES / app) for app in WRONG] + [str(tmp_path)],
        "executionEnvironments": [
            *roots,
            {"root": str(tmp_path), "extraPaths": [each["root"] for each in roots]},
        ],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config), "utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "--project", str(tmp_path)], capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)["generalDiagnostics"]
    errors = {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in report
        if each["severity"] == "error"
    }
    expected = {
        (path.name, 3 + n)
        for path, app in zip(calls, WRONG, strict=True)
        for n in range(len(WRONG[app][2]))
    }
    assert errors == expected, done.stdout
