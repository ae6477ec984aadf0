from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from penstock.db.migration_plan import CODE_NAME
from penstock.db.migrations import LOCK, Migrator
from penstock.errors import MigrationError, SchemaNewerError

Connect = Callable[..., psycopg.Connection[Any]]

UP = """
import sys, pathlib, psycopg
from penstock.db.migrations import Migrator
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    sys.stdin.read()
    print(len(Migrator(connection, pathlib.Path(sys.argv[2])).up()))
"""


class Files:
    """A directory of SQL files like the package's own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("migrations", "generated"):
            (root / folder).mkdir()
        self.write("migrations/0001_first.sql", "create table penstock.one (n integer);")
        self.write("generated/functions.sql", self.function("select 1"))

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def function(self, body: str) -> str:
        return (
            "create or replace function penstock.answer() returns integer "
            f"language sql as $$ {body} $$;"
        )


@pytest.fixture
def sql_files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def database(empty_dsn: str, connect: Connect) -> psycopg.Connection[Any]:
    return connect(empty_dsn)


def names(migrator: Migrator) -> list[str]:
    return [migration.name for migration in migrator.up()]


def answer(database: psycopg.Connection[Any]) -> int:
    row = database.execute("select penstock.answer()").fetchone()
    assert row is not None
    return int(row[0])


def test_an_empty_database_gets_everything_once(database: Any, sql_files: Files) -> None:
    migrator = Migrator(database, sql_files.root)
    before = migrator.status()
    assert (before.current, before.target) == (None, 1)
    assert [m.name for m in before.pending] == ["first", CODE_NAME]

    assert names(migrator) == ["first", CODE_NAME]
    assert answer(database) == 1
    assert names(migrator) == []
    after = migrator.status()
    assert (after.current, after.pending) == (1, [])


def test_asking_for_the_status_changes_nothing(database: Any, sql_files: Files) -> None:
    Migrator(database, sql_files.root).status()
    found = database.execute("select to_regnamespace('penstock')").fetchone()
    assert found == (None,)


def test_a_new_migration_runs_and_lays_the_functions_down_again(
    database: Any, sql_files: Files
) -> None:
    names(Migrator(database, sql_files.root))
    sql_files.write("migrations/0002_second.sql", "drop function penstock.answer();")
    assert names(Migrator(database, sql_files.root)) == ["second", CODE_NAME]
    assert answer(database) == 1


def test_a_changed_function_is_replaced_without_a_migration(
    database: Any, sql_files: Files
) -> None:
    names(Migrator(database, sql_files.root))
    sql_files.write("generated/functions.sql", sql_files.function("select 2"))
    assert names(Migrator(database, sql_files.root)) == [CODE_NAME]
    assert answer(database) == 2


def test_functions_come_before_the_views(database: Any, sql_files: Files) -> None:
    sql_files.write(
        "generated/views.sql", "create or replace view penstock.v as select penstock.answer() as n;"
    )
    names(Migrator(database, sql_files.root))
    assert database.execute("select n from penstock.v").fetchone() == (1,)


def test_percent_signs_and_several_statements_pass_unchanged(
    database: Any, sql_files: Files
) -> None:
    sql_files.write(
        "migrations/0002_percent.sql",
        "create table penstock.p (t text); insert into penstock.p values ('100 %s %% ä');",
    )
    names(Migrator(database, sql_files.root))
    assert database.execute("select t from penstock.p").fetchone() == ("100 %s %% ä",)


def test_a_failed_migration_leaves_no_trace_and_the_next_run_goes_on(
    database: Any, sql_files: Files
) -> None:
    sql_files.write(
        "migrations/0002_second.sql", "create table penstock.two (n integer); select 1 / 0;"
    )
    migrator = Migrator(database, sql_files.root)
    with pytest.raises(MigrationError, match=r"migration 2 \(second\) failed: division by zero"):
        migrator.up()
    assert migrator.status().current == 1
    assert database.execute("select to_regclass('penstock.two')").fetchone() == (None,)

    sql_files.write("migrations/0002_second.sql", "create table penstock.two (n integer);")
    assert names(Migrator(database, sql_files.root)) == ["second", CODE_NAME]


def test_an_edited_migration_is_refused(database: Any, sql_files: Files) -> None:
    names(Migrator(database, sql_files.root))
    sql_files.write("migrations/0001_first.sql", "create table penstock.one (n bigint);")
    with pytest.raises(MigrationError, match=r"1 \(first\) .* another text. Never edit an applied"):
        Migrator(database, sql_files.root).up()


def test_line_ends_do_not_count_as_an_edit(database: Any, sql_files: Files) -> None:
    sql_files.write("migrations/0001_first.sql", "create table penstock.one\n(n integer);\n")
    names(Migrator(database, sql_files.root))
    (sql_files.root / "migrations/0001_first.sql").write_bytes(
        b"create table penstock.one\r\n(n integer);\r\n"
    )
    assert names(Migrator(database, sql_files.root)) == []


def test_a_schema_from_the_future_is_left_alone(database: Any, sql_files: Files) -> None:
    sql_files.write("migrations/0002_second.sql", "create table penstock.two (n integer);")
    names(Migrator(database, sql_files.root))
    (sql_files.root / "migrations/0002_second.sql").unlink()
    sql_files.write("generated/functions.sql", sql_files.function("select 0"))
    older = Migrator(database, sql_files.root)
    with pytest.raises(SchemaNewerError, match="version 2, this Penstock knows versions up to 1"):
        older.up()
    assert (older.status().current, older.status().pending) == (2, [])
    assert answer(database) == 1


@pytest.mark.parametrize("name", ["0003_gap.sql", "second.sql", "2_short.sql", "0002_Big.sql"])
def test_misnamed_files_are_refused(database: Any, sql_files: Files, name: str) -> None:
    sql_files.write(f"migrations/{name}", "select 1;")
    with pytest.raises(MigrationError):
        Migrator(database, sql_files.root).up()


def test_an_unqualified_name_fails_instead_of_landing_in_public(
    database: Any, sql_files: Files
) -> None:
    sql_files.write("migrations/0002_lost.sql", "create table lost (n integer);")
    with pytest.raises(MigrationError, match="lost"):
        Migrator(database, sql_files.root).up()


def test_the_callers_kind_of_connection_does_not_matter(
    empty_dsn: str, connect: Connect, sql_files: Files
) -> None:
    strict = connect(
        empty_dsn,
        autocommit=False,
        row_factory=dict_row,
        options="-c default_transaction_isolation=serializable",
    )
    assert names(Migrator(strict, sql_files.root)) == ["first", CODE_NAME]
    strict.rollback()
    assert Migrator(connect(empty_dsn), sql_files.root).status().pending == []


def test_four_processes_at_once_apply_everything_once(
    empty_dsn: str, database: Any, sql_files: Files
) -> None:
    for number in range(2, 8):
        sql_files.write(f"migrations/{number:04}_more.sql", f"create table penstock.t{number} ();")
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", UP, empty_dsn, str(sql_files.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in crowd:
        assert process.stdin is not None
        process.stdin.close()  # all have connected, or are about to
        process.stdin = None
    applied = [int(process.communicate()[0]) for process in crowd]
    assert sum(applied) == 8
    assert Migrator(database, sql_files.root).status().pending == []


def test_migrators_wait_for_each_other(
    empty_dsn: str, connect: Connect, database: Any, sql_files: Files
) -> None:
    other = connect(empty_dsn, autocommit=False)
    other.execute("select pg_advisory_xact_lock(%s)", [LOCK])
    database.execute("set lock_timeout = '50ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        Migrator(database, sql_files.root).up()
    other.rollback()
    assert names(Migrator(database, sql_files.root)) == ["first", CODE_NAME]


def run_psql(pg_bin: Path, dsn: str, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [pg_bin / "psql", "--no-psqlrc", "--quiet", dsn],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_does_in_psql_what_up_does(
    empty_dsn: str, database: Any, pg_bin: Path, sql_files: Files
) -> None:
    script = Migrator.sql(sql_files.root)
    done = run_psql(pg_bin, empty_dsn, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert answer(database) == 1
    assert Migrator(database, sql_files.root).status().pending == []


def test_the_script_run_twice_changes_nothing_and_says_so(
    empty_dsn: str, database: Any, pg_bin: Path, sql_files: Files
) -> None:
    script = Migrator.sql(sql_files.root)
    run_psql(pg_bin, empty_dsn, script)
    again = run_psql(pg_bin, empty_dsn, script)
    assert again.returncode != 0
    assert "already exists" in again.stderr


def test_the_packages_own_files_make_a_schema(dsn: str, connect: Connect) -> None:
    status = Migrator(connect()).status()
    assert status.current == status.target >= 1
    assert status.pending == []


def test_the_packages_own_script_runs_in_psql(empty_dsn: str, database: Any, pg_bin: Path) -> None:
    done = run_psql(pg_bin, empty_dsn, Migrator.sql())
    assert (done.returncode, done.stderr) == (0, "")
    assert Migrator(database).status().pending == []


def test_a_schema_of_development_is_refused_and_left_alone(database: Any, sql_files: Files) -> None:
    (sql_files.root / "migrations/0001_first.sql").rename(
        sql_files.root / "migrations/0001_engine.sql"
    )
    sql_files.write("migrations/0002_more.sql", "create table penstock.two (n integer);")
    names(Migrator(database, sql_files.root))
    with pytest.raises(MigrationError, match=r"before the first release.*'engine'") as caught:
        Migrator(database).up()
    assert "drop schema penstock" in str(caught.value)
    with pytest.raises(MigrationError, match="before the first release"):
        Migrator(database).status()
    assert answer(database) == 1
