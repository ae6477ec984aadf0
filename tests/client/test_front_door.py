"""What `from penstock import ...` offers."""

import subprocess
import sys
import types

import penstock


def test_everything_public_is_in_all_and_everything_in_all_is_there():
    public = {
        name
        for name in dir(penstock)
        if not name.startswith("_") and not isinstance(getattr(penstock, name), types.ModuleType)
    }
    assert public == set(penstock.__all__)


def test_the_front_door_stays_narrow():
    assert len(penstock.__all__) <= 14
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


def answer(program: str) -> str:
    """Of a Python of its own, where nothing is loaded yet."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return run.stdout.strip()
