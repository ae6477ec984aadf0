"""Count the lines of the SQL and Python sources, and the statements that a first claim plans.

    python tools/sizes.py                  starts a temporary PostgreSQL for the statements
    python tools/sizes.py --lines          counts the lines only
    python tools/sizes.py --against REV    counts the lines of a commit and of the working tree

Blank lines and comments count. Generated files are counted separately.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median_low
from typing import Any

import psycopg
from psycopg.errors import Diagnostic

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "penstock"
# These lines are not written by hand, or are never edited again.
NOT_SOURCES = ("generated", "migrations")
CLAIM = "select id from penstock.claim('work')"
ENQUEUE = "select count(*) from penstock.enqueue_many('work', array_fill('1'::jsonb, array[500]))"
SESSIONS = 11
_GENERATED = "# Generated from "


def lines_of_sql(package: Path = PACKAGE) -> Counter[str]:
    """By folder of sql. The areas of functions/ are folders too."""
    counts: Counter[str] = Counter()
    for file in sorted(package.rglob("*.sql")):
        folders = file.relative_to(package).parent.parts
        counts["/".join(folders[1:3]) or "."] += _lines(file)
    return counts


def lines_of_python(package: Path = PACKAGE) -> Counter[str]:
    """By package of src/penstock. Modules that a tool generates count as `generated`."""
    counts: Counter[str] = Counter()
    for file in sorted(package.rglob("*.py")):
        folders = file.relative_to(package).parts[:-1]
        generated = file.read_text("utf-8").startswith(_GENERATED)
        counts["generated" if generated else folders[0] if folders else "."] += _lines(file)
    return counts


@contextmanager
def package_at(revision: str, repository: Path = ROOT) -> Iterator[Path]:
    """The package as it was at a commit, in a temporary directory."""
    command = ["git", "archive", revision, "src/penstock"]
    packed = subprocess.run(command, cwd=repository, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as directory:
        # Not tarfile, whose filters came in 3.11.4, and which warns without them from 3.12 on.
        subprocess.run(["tar", "-xf", "-", "-C", directory], input=packed, check=True)
        yield Path(directory) / "src" / "penstock"


def compared(before: Counter[str], after: Counter[str]) -> Iterator[tuple[str, int, int]]:
    """Each package with both numbers of lines, then the total of the sources."""
    for name in sorted(before | after):
        yield name, before[name], after[name]
    yield "total without generated and migrations", _sources(before), _sources(after)


def _sources(counts: Counter[str]) -> int:
    return sum(count for name, count in counts.items() if name not in NOT_SOURCES)


def planned(connection: psycopg.Connection[Any], statement: str) -> int:
    """How many statements and expressions the session plans for this statement.

    PostgreSQL reports each plan that it makes, also those inside functions.
    """
    plans: list[str] = []

    def note(message: Diagnostic) -> None:
        if message.message_primary == "plan:":
            plans.append(message.message_primary)

    connection.execute("set client_min_messages = log")
    connection.execute("set debug_print_plan = on")
    connection.add_notice_handler(note)
    connection.execute(statement)
    connection.remove_notice_handler(note)
    return len(plans)


def first_claims(dsn: str) -> dict[str, int]:
    """Statements that the first claim of a session plans: the median of several sessions.

    A claim after a pause of the queue plans more, because it looks for due messages too.
    """

    def claims(autocommit: bool) -> int:
        counts = []
        for _ in range(SESSIONS):
            with psycopg.connect(dsn, autocommit=autocommit) as session:
                # Another session does the upkeep, as in a queue that is in use.
                admin.execute("select count(*) from penstock.claim('work', 2)")
                counts.append(planned(session, CLAIM))
                session.rollback()
        return median_low(counts)

    found: dict[str, int] = {}
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("select penstock.create_queue('work')")
        admin.execute(ENQUEUE)
        found["one message, in autocommit"] = claims(True)
        found["one message, in a transaction block"] = claims(False)
        admin.execute("select count(*) from penstock.claim('work', 20)")
        found["the same, next to messages that are leased in place"] = claims(False)
    return found


def _lines(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())


def _table(titles: Iterable[str], rows: Iterable[tuple[str | int, ...]]) -> None:
    listed = [*titles]
    print(f"| {' | '.join(listed)} |\n|{'---|' * len(listed)}")
    for row in rows:
        cells = [cell if isinstance(cell, str) else f"{cell:,}" for cell in row]
        print(f"| {' | '.join(cells)} |")
    print()


def _compare(revision: str) -> None:
    with package_at(revision) as package:
        for language, count in (("SQL", lines_of_sql), ("Python", lines_of_python)):
            titles = (f"lines of {language}", revision, "now")
            _table(titles, compared(count(package), count()))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", action="store_true", help="count the lines only")
    parser.add_argument(
        "--against", metavar="REV", help="count the lines only, next to those of this commit"
    )
    options = parser.parse_args(arguments)
    if options.against:
        _compare(options.against)
        return 0
    sql, python = lines_of_sql(), lines_of_python()
    total = "total without generated and migrations"
    _table(("lines of SQL", ""), [*sql.items(), (total, _sources(sql))])
    _table(("lines of Python", ""), [*python.items(), (total, _sources(python))])
    if not options.lines:
        from penstock.db.migrations import Migrator
        from penstock_benchmarks.tcp_server import tcp_server

        with tcp_server() as dsn:
            with psycopg.connect(dsn, autocommit=True) as connection:
                Migrator(connection).up()
            title = "statements and expressions that a first claim plans"
            _table((title, ""), first_claims(dsn).items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
