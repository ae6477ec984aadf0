"""Where the server can be reached, and by whom."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock.db.embedded import EmbeddedPostgres, binaries, postmaster
from penstock.db.embedded.account import Account
from penstock.db.embedded.binaries import wheel_bin_directory

root_only = pytest.mark.skipif(
    os.geteuid() != 0, reason="Only root can act as another user. Run the tests as root."
)


def socket_directory(server: EmbeddedPostgres) -> Path:
    return Path(str(conninfo_to_dict(server.dsn)["host"]))


def works(server: EmbeddedPostgres) -> bool:
    with psycopg.connect(server.dsn) as connection:
        return connection.execute("select 1").fetchone() == (1,)


def test_the_server_listens_on_no_network(home: Path) -> None:
    with EmbeddedPostgres.start(home) as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)


def test_data_and_socket_are_closed_to_other_users(home: Path) -> None:
    with EmbeddedPostgres.start(home) as server:
        for path in (server.data_directory, socket_directory(server), home / "server"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_libpqs_variables_do_not_lead_astray(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGPORT": "1", "PGHOST": "x", "PGDATABASE": "x", "PGDATA": "/x"}.items():
        monkeypatch.setenv(name, value)
    with EmbeddedPostgres.start(home) as server:
        assert works(server)


def test_an_empty_environment_is_enough(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.keys() - {"PATH", "PYTEST_CURRENT_TEST"}:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "")
    with EmbeddedPostgres.start(home) as server:
        assert works(server)


def test_a_home_too_long_for_a_socket_gets_a_short_private_directory(place: Path) -> None:
    with EmbeddedPostgres.start(place / ("long" * 30)) as server:
        assert works(server)
        directory = socket_directory(server)
        assert len(str(directory)) < 40
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not directory.exists()


def test_a_short_directory_that_somebody_else_took_over_is_not_used(place: Path) -> None:
    home = place / ("long" * 30)
    with EmbeddedPostgres.start(home) as server:
        first = socket_directory(server)
    first.mkdir(mode=0o755)
    try:
        with EmbeddedPostgres.start(home) as server:
            assert works(server)
            assert socket_directory(server) != first
    finally:
        first.rmdir()


def test_any_name_will_do_for_a_home(place: Path) -> None:
    with EmbeddedPostgres.start(place / 'it\'s "grün", $HOME `id` \\') as server:
        assert works(server)


@root_only
def test_another_local_user_cannot_connect_even_past_the_directories(home: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    intruder = Account(nobody.pw_uid, nobody.pw_gid)
    with EmbeddedPostgres.start(home) as server:
        assert server.data_directory.stat().st_uid != intruder.uid
        psql = [wheel_bin_directory(18) / "psql", server.dsn, "-c", "select 1"]
        assert "Permission denied" in intruder.run(psql, cwd=Path("/")).stdout
        socket = socket_directory(server)
        for path in (home / "server", socket, socket / ".s.PGSQL.5432"):
            path.chmod(0o777)
        assert "Peer authentication failed" in intruder.run(psql, cwd=Path("/")).stdout


@root_only
def test_for_root_the_server_runs_as_somebody_else(home: Path) -> None:
    with EmbeddedPostgres.start(home) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0
        assert works(server)


@pytest.fixture
def system_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for /var/lib/penstock."""
    monkeypatch.setattr(binaries, "SYSTEM_PLACE", place / "system")
    return place / "system"


@pytest.fixture
def closed(place: Path) -> Iterator[Path]:
    """A directory like root's home: other users may not enter."""
    directory = place / "closed"
    directory.mkdir(mode=0o700)
    yield directory
    for data in directory.glob("*/server/postgres"):
        postmaster.stop(data.resolve())


@root_only
def test_a_home_that_the_servers_user_cannot_enter_has_its_data_elsewhere(
    closed: Path, system_place: Path
) -> None:
    for _ in range(2):
        with EmbeddedPostgres.start(closed / "home") as server:
            assert works(server)
            assert server.data_directory.is_relative_to(system_place)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert (closed / "home" / "server").resolve() == server.data_directory.parent


@root_only
def test_programs_that_the_servers_user_cannot_reach_are_copied_once(
    closed: Path, home: Path, system_place: Path
) -> None:
    programs = wheel_bin_directory(18)
    package = programs.parents[1]
    for part in filter(Path.exists, (programs.parent, package.with_name(f"{package.name}.libs"))):
        shutil.copytree(part, closed / part.relative_to(package.parent), symlinks=True)
    unreachable = closed / programs.relative_to(package.parent)
    for _ in range(2):
        with EmbeddedPostgres.start(home, bin_dir=unreachable) as server:
            assert works(server)
    assert len(list(system_place.iterdir())) == 1
