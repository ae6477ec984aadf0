"""What `from penstock import ...` offers."""

import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[2]


def test_everything_public_is_in_all_and_everything_in_all_is_there():
    public = {
        name
        for name in dir(penstock)
        if not name.startswith("_") and not isinstance(getattr(penstock, name), types.ModuleType)
    }
    assert public == set(penstock.__all__)


def test_the_front_door_stays_narrow():
    assert len(penstock.__all__) <= 25
    assert len(set(penstock.__all__)) == len(penstock.__all__)


def test_everything_offered_says_what_it_is():
    assert all(getattr(penstock, name).__doc__ for name in penstock.__all__)


def test_the_door_opens_before_the_rooms_behind_it_are_built():
    """Spark starts a Python for every step of a write: what none of them needs is not loaded."""
    assert answer("import sys, penstock.errors; print('psycopg' in sys.modules)") == "False"


def test_the_modules_behind_the_door_are_there_without_an_import_of_their_own():
    assert answer("import penstock; print(penstock.errors.QueueFullError.__name__)") == (
        "QueueFullError"
    )
    assert answer("import penstock; print(hasattr(penstock, 'nothing_of_ours'))") == "False"


def test_the_version_is_that_of_the_package():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert penstock.__version__ == pyproject["project"]["version"]


def test_without_httpx_the_client_over_http_names_what_to_install(tmp_path):
    """An httpx that is not there: its place is taken by one that cannot be imported."""
    (tmp_path / "httpx.py").write_text("raise ModuleNotFoundError('gone', name='httpx')")
    program = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
try:
    from penstock.http import Client
except ImportError as error:
    print(error)
"""
    assert "pip install 'penstock[http]'" in answer(program)


IMPORTS = re.compile(
    r"^ *(from penstock[\w.]* import (?:\([^)]*\)|.*)|import penstock.*)$", re.MULTILINE
)
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_import_in_the_docs_works(page):
    for statement in IMPORTS.findall(page.read_text("utf-8")):
        exec(statement, {})


CLASSES = re.compile(r"`(Worker|App|RetryPolicy|Backoff|Client|AsyncClient|NewMessage)\(")


def test_the_classes_that_the_docs_call_are_at_the_front_door():
    named = {name for page in PAGES for name in CLASSES.findall(page.read_text("utf-8"))}
    assert {"Worker", "RetryPolicy", "Client"} <= named
    assert named <= set(penstock.__all__)


def answer(program: str) -> str:
    """In a separate Python, where nothing is loaded yet."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return run.stdout.strip()
