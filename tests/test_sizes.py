"""`make sizes` counts every source once, and the plans of a first claim."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import psycopg

_SPEC = importlib.util.spec_from_file_location(
    "sizes", Path(__file__).parents[1] / "tools" / "sizes.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
sizes = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sizes)


def test_every_sql_file_and_every_module_is_counted_once() -> None:
    for counts, files in (
        (sizes.lines_of_sql(), sizes.SQL.rglob("*.sql")),
        (sizes.lines_of_python(), sizes.PACKAGE.rglob("*.py")),
    ):
        lines = sum(len(file.read_text("utf-8").splitlines()) for file in files)
        assert counts.total() == lines
        assert min(counts.values()) > 0


def test_plans_inside_functions_count_and_kept_plans_do_not(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert sizes.planned(connection, "select 1") == 1
        connection.execute("select penstock.create_queue('work')")
        first = sizes.planned(connection, sizes.CLAIM)
        assert first > 10
        assert sizes.planned(connection, sizes.CLAIM) < first
