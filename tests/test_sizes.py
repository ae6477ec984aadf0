"""`make sizes` counts every source once, and the plans of a first claim."""

from __future__ import annotations

import importlib.util
import subprocess
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
        (sizes.lines_of_sql(), sizes.PACKAGE.rglob("*.sql")),
        (sizes.lines_of_python(), sizes.PACKAGE.rglob("*.py")),
    ):
        lines = sum(len(file.read_text("utf-8").splitlines()) for file in files)
        assert counts.total() == lines
        assert min(counts.values()) > 0


def test_lines_of_a_commit_are_compared_with_those_of_now(tmp_path: Path) -> None:
    files = {"db/pool.py": 3, "sql/schema/queue.sql": 5, "sql/generated/base.sql": 7}
    for name, lines in files.items():
        file = tmp_path / "src" / "penstock" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x\n" * lines)
    who = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "Add files"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "src" / "penstock" / "db" / "pool.py").write_text("x\n")
    with sizes.package_at("HEAD", tmp_path) as before:
        now = tmp_path / "src" / "penstock"
        assert list(sizes.compared(sizes.lines_of_python(before), sizes.lines_of_python(now))) == [
            ("db", 3, 1),
            ("total without generated and migrations", 3, 1),
        ]
        assert list(sizes.compared(sizes.lines_of_sql(before), sizes.lines_of_sql(now))) == [
            ("generated", 7, 7),
            ("schema", 5, 5),
            ("total without generated and migrations", 5, 5),
        ]


def test_plans_inside_functions_count_and_kept_plans_do_not(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert sizes.planned(connection, "select 1") == 1
        connection.execute("select penstock.create_queue('work')")
        first = sizes.planned(connection, sizes.CLAIM)
        assert first > 10
        assert sizes.planned(connection, sizes.CLAIM) < first
