"""Count the lines of the SQL and Python sources, and the statements that a first claim plans.

    python tools/sizes.py            starts a temporary PostgreSQL for the statements
    python tools/sizes.py --lines    counts the lines only

Blank lines and comments count. Generated files are counted separately.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median_low
from typing import Any

import psycopg
from psycopg.errors import Diagnostic

ROOT = Path(__file__).resolve().parent.parent
SQL = ROOT / "src" / "penstock" / "sql"
PACKAGE = ROOT / "src" / "penstock"
CLAIM = "select id from penstock.claim('work')"
ENQUEUE = "select count(*) from penstock.enqueue_many('work', array_fill('1'::jsonb, array[500]))"
SESSIONS = 11
_GENERATED = "# Generated from "


def lines_of_sql() -> Counter[str]:
    """By folder of src/penstock/sql. The areas of functions/ are folders too."""
    counts: Counter[str] = Counter()
    for file in sorted(SQL.rglob("*.sql")):
        folders = file.relative_to(SQL).parent.parts
        counts["/".join(folders[:2])] += _lines(file)
    return counts


def lines_of_python() -> Counter[str]:
    """By package of src/penstock. Modules that a tool generates count as `generated`."""
    counts: Counter[str] = Counter()
    for file in sorted(PACKAGE.rglob("*.py")):
        folders = file.relative_to(PACKAGE).parts[:-1]
        generated = file.read_text("utf-8").startswith(_GENERATED)
        counts["generated" if generated else folders[0] if folders else "."] += _lines(file)
    return counts


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


def _table(title: str, rows: Iterable[tuple[str, int]]) -> None:
    listed = list(rows)
    print(f"| {title} | |\n|---|---|")
    for name, count in listed:
        print(f"| {name} | {count:,} |")
    print()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", action="store_true", help="count the lines only")
    options = parser.parse_args(arguments)
    sql, python = lines_of_sql(), lines_of_python()
    source = sum(
        count for folder, count in sql.items() if folder not in ("generated", "migrations")
    )
    sources = sum(count for package, count in python.items() if package != "generated")
    _table("lines of SQL", [*sql.items(), ("total without generated and migrations", source)])
    _table("lines of Python", [*python.items(), ("total without generated", sources)])
    if not options.lines:
        from penstock.db.migrations import Migrator
        from penstock_benchmarks.tcp_server import tcp_server

        with tcp_server() as dsn:
            with psycopg.connect(dsn, autocommit=True) as connection:
                Migrator(connection).up()
            _table("statements and expressions that a first claim plans", first_claims(dsn).items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
