from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.settings import Settings

URL = "postgresql://ada:secret@db.example/shop"


def settings(dsn: str | None = None, **environment: str) -> Settings:
    return Settings.from_environment(dsn, environment={"HOME": "/home/ada", **environment})


def test_without_any_variable_the_embedded_server_is_used() -> None:
    assert settings().dsn is None


def test_an_explicit_dsn_goes_before_the_environment() -> None:
    assert settings(URL, PENSTOCK_DSN="postgresql://other/db").dsn == URL


def test_penstock_dsn_goes_before_database_url() -> None:
    assert settings(PENSTOCK_DSN=URL, DATABASE_URL="postgresql://other/db").dsn == URL
    assert settings(DATABASE_URL=URL).dsn == URL


def test_a_variable_set_to_nothing_counts_as_not_set() -> None:
    found = settings(PENSTOCK_DSN=" ", DATABASE_URL="", PENSTOCK_HOME="", XDG_DATA_HOME="/d")
    assert found == Settings(dsn=None, home=Path("/d/penstock"))


@pytest.mark.parametrize(
    "prefix", ["postgres", "postgresql", "postgresql+psycopg", "postgresql+asyncpg"]
)
def test_addresses_of_other_libraries_are_understood(prefix: str) -> None:
    assert settings(f" {prefix}://ada:secret@db.example/shop\n").dsn == URL


def test_key_value_pairs_are_understood() -> None:
    assert settings(PENSTOCK_DSN="host=/tmp dbname=shop").dsn == "host=/tmp dbname=shop"


def test_a_database_of_another_kind_is_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigurationError, match=r"DATABASE_URL names a mysql .*PENSTOCK_DSN"):
        settings(DATABASE_URL="mysql://localhost/shop")


@pytest.mark.parametrize(
    "dsn",
    ["", "  ", "secret", "host = 'secret", "postgresql://u:secret@[::1/z", "postgres://h/?no=1"],
)
def test_a_wrong_dsn_is_refused_by_name_and_without_its_secrets(dsn: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings(dsn)
    assert "the DSN" in str(caught.value)
    assert "postgresql://user:password@host:port/database" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_unknown_parameter_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"PENSTOCK_DSN.*colour"):
        settings(PENSTOCK_DSN="postgresql://h/?colour=red")


def test_the_home_is_where_the_variable_says() -> None:
    assert settings(PENSTOCK_HOME="/srv/queue").home == Path("/srv/queue")
    assert settings(PENSTOCK_HOME="~/queue").home == Path("/home/ada/queue")
    assert settings(PENSTOCK_HOME="queue").home == Path.cwd() / "queue"


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigurationError, match=r"PENSTOCK_HOME is .*file, which is not a direct"):
        settings(PENSTOCK_HOME=str(file))


def test_the_default_home_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert settings().home == Path("/home/ada/.local/share/penstock")
    assert settings(XDG_DATA_HOME="/data").home == Path("/data/penstock")
    assert settings(XDG_DATA_HOME="relative").home == Path("/home/ada/.local/share/penstock")


def test_root_keeps_its_data_where_another_user_can_reach_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert settings(HOME="").home == Path("/var/lib/penstock")
    assert settings(HOME=pwd.getpwuid(0).pw_dir).home == Path("/var/lib/penstock")


def test_root_with_another_home_keeps_its_data_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert settings(HOME="/srv/queue").home == Path("/srv/queue/.local/share/penstock")
    assert settings(HOME="/srv", XDG_DATA_HOME="/data").home == Path("/data/penstock")
    assert settings(HOME="/srv", PENSTOCK_HOME="/queue").home == Path("/queue")


def test_an_empty_home_variable_falls_back_on_the_user_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.settings.pwd.getpwuid", lambda _: PasswordEntry())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert settings(HOME="").home == Path("/var/lib/ada/.local/share/penstock")


class PasswordEntry:
    pw_dir = "/var/lib/ada"


def test_a_user_without_any_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    with pytest.raises(ConfigurationError, match=r"user 4000000 has no home.*PENSTOCK_HOME"):
        settings(HOME="")
