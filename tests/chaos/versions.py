"""The version before this one, whose workers and producers run while the schema is upgraded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from itertools import count
from pathlib import Path

import psycopg

from penstock.db.migrations import Migrator

ROOT = Path(__file__).parents[2]
MIGRATIONS = "src/penstock/sql/migrations"
_texts = count(1)


def commit_of(revision: str | None) -> str | None:
    """The commit to upgrade from: that of a revision, else the commit before the checked-out one.

    None if there is no history, or if the migrations of the previous commit are not the first ones
    of the checked-out files.
    """
    wanted = revision or _default_revision()
    if wanted is None:
        return None
    found = _git("rev-parse", "--verify", f"{wanted}^{{commit}}")
    if found is None:
        raise SystemExit(f"--from {wanted}: git has no such revision")
    return found.decode().strip()


def _default_revision() -> str | None:
    before = _git("ls-tree", "HEAD~1", f"{MIGRATIONS}/")
    if before is None:
        return None
    known = [line.split()[2:] for line in before.decode().splitlines()]
    ours = sorted((ROOT / MIGRATIONS).glob("*.sql"))
    if len(known) > len(ours):
        return None
    for (blob, name), file in zip(known, ours, strict=False):
        written = _git("hash-object", str(file))
        if (
            name != f"{MIGRATIONS}/{file.name}"
            or written is None
            or written.decode().strip() != blob
        ):
            return None
    return "HEAD~1"


def unpack(revision: str | None, place: Path) -> Path:
    """The package and this suite as they were at a revision; a directory to run them in."""
    if revision is None:
        return ROOT
    archive = _git("archive", revision, "src", "tests/chaos")
    if archive is None:
        raise SystemExit(f"--from {revision}: the revision has no src and tests/chaos")
    place.mkdir()
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)
    return place


def of_version(root: Path) -> dict[str, str]:
    """Has a process that runs in this directory import the package from there."""
    return {"PYTHONPATH": str(root / "src")}


def install(dsn: str, root: Path) -> None:
    """Installs the schema of the version that was unpacked to a directory."""
    command = [sys.executable, "-m", "penstock.cli", "migrate", "up", "--dsn", dsn]
    subprocess.run(
        command, cwd=root, env={**os.environ, **of_version(root)}, stdout=sys.stderr, check=True
    )


def upgrade(connection: psycopg.Connection[object]) -> list[str]:
    """Runs `migrate up` of the checked-out files, and returns the names of the steps."""
    return [f"{step.version} {step.name}" for step in Migrator(connection).up()]


def replace_functions(connection: psycopg.Connection[object]) -> None:
    """Runs `migrate up` with functions whose text has changed, so that all of them are replaced."""
    with _changed() as directory:
        Migrator(connection, directory).up()


@contextmanager
def _changed() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="upgrade-") as place:
        directory = Path(place) / "sql"
        shutil.copytree(str(files("penstock") / "sql"), directory)
        with (directory / "generated" / "functions.sql").open("a", encoding="utf-8") as file:
            file.write(f"\n-- Upgrade {next(_texts)}.\n")
        yield directory


def _git(*arguments: str) -> bytes | None:
    """What git printed; None where it failed or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
