"""Addresses of services: every form of libpq, without a way to the files of the server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock.commands.write.services import claim_service_checks, set_service_address
from penstock.errors import ConfigurationError, InvalidValueError
from penstock.secrets import SecretBox, new_secret_key
from penstock.server.control.addresses import (
    Addresses,
    ServiceAddress,
    _no_certificate,
    without_password,
)

KEY = new_secret_key()
NOWHERE = "host=127.0.0.1 port=1 user=a"
Db = psycopg.Connection[Any]


def addresses(*paths: Path, key: str = KEY) -> Addresses:
    return Addresses(paths, SecretBox(key))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("postgresql://ada:x@db:15432/app", {"port": "15432", "host": "db", "dbname": "app"}),
        ("postgres://ada:x@db/app", {"host": "db"}),
        ("host=db user=ada password=x port=65535", {"port": "65535", "user": "ada"}),
        ("postgresql://ada:x@a:1,b:2/app?target_session_attrs=read-write", {"host": "a,b"}),
        ("postgresql://ada:p%C3%A4ss@[::1]:5432/app?sslmode=verify-full", {"password": "päss"}),
        ("host=db user=ada password='ключ x'", {"password": "ключ x"}),
        ("host=db user=ada sslmode=verify-full sslrootcert=system", {"sslrootcert": "system"}),
        ("hostaddr=10.0.0.1 user=ada", {"hostaddr": "10.0.0.1"}),
        ("host=db user=ada krbsrvname=pg gsslib=gssapi", {"krbsrvname": "pg", "gsslib": "gssapi"}),
        ("host=db user=ada requirepeer=postgres", {"requirepeer": "postgres", "dbname": "ada"}),
    ],
)
def test_what_libpq_accepts_is_accepted(given: str, expected: dict[str, str]) -> None:
    ours = addresses()
    stored = ours.stored(given)
    assert "password" not in conninfo_to_dict(stored.dsn)
    assert expected.items() <= conninfo_to_dict(ours.conninfo(stored)).items()


@pytest.mark.parametrize(
    "given",
    [
        *("host=db user=ada passfile=/etc/passwd", "host=db user=ada sslkey=/root/key"),
        *("service=prod", "host=db user=ada servicefile=/etc/x", "host=db user=ada sslcrl=/x"),
        *("host=/var/run/postgresql user=ada", "host=@abstract user=ada", "host=db,/run user=a"),
        *("host=db user=ada sslrootcert=/etc/ssl/private/key", "host=db,, user=ada"),
        *("host=db user=ada sslrootcert=relative.pem", "host=db user=ada sslkeylogfile=/tmp/x"),
        *(
            "host=db user=ada sslcert=/c",
            "host=db user=ada sslcrldir=/x",
            "host=db replication=true",
        ),
        *("user=ada", "mysql://db/x", "", "hostt=db", "postgresql://a:b%zz@db/x"),
    ],
)
def test_ways_to_files_of_the_server_and_nonsense_are_refused(given: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        addresses().stored(given)
    assert refused.value.field == "dsn"
    assert "b%zz" not in refused.value.message


def test_what_libpq_would_cut_off_is_refused(tmp_path: Path) -> None:
    """Connection strings end at a NUL, and the last keywords protect files of the server."""
    (tmp_path / "file").write_bytes(b"a\0b")
    with pytest.raises(InvalidValueError, match="dsn contains the character NUL"):
        addresses().stored(f"{NOWHERE}\0 sslmode=require")
    with pytest.raises(InvalidValueError, match="password contains the character NUL"):
        addresses().stored(NOWHERE, "a b\0")
    with pytest.raises(InvalidValueError, match="password_file contains the character NUL"):
        addresses(tmp_path).stored(NOWHERE, None, "file")
    older = ServiceAddress(NOWHERE, SecretBox(KEY).seal("a\0"))
    with pytest.raises(InvalidValueError, match="password contains the character NUL"):
        addresses().conninfo(older)


def test_files_are_confined_to_the_directories_of_the_setting(tmp_path: Path) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    for directory in (allowed, outside):
        directory.mkdir()
        (directory / "root.pem").write_text("x")
        (directory / "password").write_text("from a file\n")
    (allowed / "link.pem").symlink_to(outside / "root.pem")
    (allowed / "link").symlink_to(outside / "password")
    ours = addresses(allowed)
    assert ours.stored(f"host=db user=ada sslrootcert={allowed}/root.pem")
    assert ours.stored(f"host={allowed} user=ada")
    stored = ours.stored("host=db user=ada", password_file="password")
    assert conninfo_to_dict(ours.conninfo(stored))["password"] == "from a file"
    for path in (f"{outside}/root.pem", f"{allowed}/../outside/root.pem", f"{allowed}/link.pem"):
        with pytest.raises(InvalidValueError):
            ours.stored(f"host=db user=ada sslrootcert={path}")
    for name in ("../outside/password", "link", "none", ".", "", f"{outside}/password"):
        with pytest.raises(InvalidValueError):
            ours.stored("host=db user=ada", password_file=name)


def test_an_address_may_have_a_client_certificate(tmp_path: Path) -> None:
    for name in ("client.crt", "client.key", "a:b.key", "root.crl"):
        (tmp_path / name).write_text("x")
    ours = addresses(tmp_path)
    certificate = f"host=db user=ada sslcert={tmp_path}/client.crt"
    key = f"sslkey={tmp_path}/client.key"
    for refused in (certificate, f"host=db user=ada {key}", f"{certificate} {key[:-4]}"):
        with pytest.raises(InvalidValueError, match=r"need each other|allowed directory"):
            addresses().stored(refused)
    with pytest.raises(InvalidValueError, match="need each other"):
        ours.stored(certificate)
    with pytest.raises(InvalidValueError, match="colon"):
        ours.stored(f"{certificate} sslkey={tmp_path}/a:b.key")
    stored = ours.stored(f"{certificate} {key} sslcrl={tmp_path}/root.crl sslpassword=hunter2")
    assert "hunter2" not in stored.dsn
    found = conninfo_to_dict(ours.conninfo(stored))
    assert (found["sslpassword"], found.get("sslcertmode")) == ("hunter2", None)
    # Another password keeps the passphrase, and so does another key of the setting.
    again = ours.stored(without_password(stored.dsn), "new")
    assert conninfo_to_dict(ours.conninfo(again))["sslpassword"] == "hunter2"
    new = new_secret_key()
    renewed = addresses(tmp_path, key=f"{new},{KEY}").resealed(again)
    found = conninfo_to_dict(addresses(tmp_path, key=new).conninfo(renewed))
    assert (found["sslpassword"], found["password"]) == ("hunter2", "new")
    with pytest.raises(InvalidValueError, match="another key"):
        ours.stored("host=db user=ada sslpassword=encrypted:x")


def test_an_address_without_a_user_has_the_user_of_libpq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGUSER", "penstock")
    monkeypatch.setenv("PGDATABASE", "elsewhere")
    ours = addresses()
    found = conninfo_to_dict(ours.conninfo(ours.stored("host=db")))
    assert (found["user"], found["dbname"]) == ("penstock", "penstock")


@pytest.mark.parametrize("form", ["postgresql://ada@db/app?{}", "host=db user=ada {}"])
@pytest.mark.parametrize("mode", ["", "allow", "require"])
def test_empty_names_of_files_do_not_lead_to_those_of_the_server(form: str, mode: str) -> None:
    given = {"sslcert": "", "sslkey": "", "sslrootcert": "", "sslcrl": "", "sslcrldir": ""}
    given |= {"sslcertmode": mode} if mode else {}
    is_url = form.startswith("postgresql:")
    pairs = [f"{name}={value or ('' if is_url else chr(39) * 2)}" for name, value in given.items()]
    address = form.format(("&" if is_url else " ").join(pairs))
    ours = addresses()
    stored = ours.stored(address)
    # An address from before this rule is checked again when it is used.
    for each in (stored, replace(stored, dsn=address)):
        found = conninfo_to_dict(ours.conninfo(each))
        assert found["sslcertmode"] == "disable"
        assert not found.keys() & {"sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir"}


@pytest.mark.parametrize("name", ["passfile", "service", "servicefile", "sslkeylogfile"])
def test_refused_keywords_of_files_are_refused_without_a_value_too(name: str) -> None:
    if name not in {each.keyword.decode() for each in psycopg.pq.Conninfo.get_defaults()}:
        pytest.skip("this libpq does not know it")
    assert f"{name} is not allowed" in reason_of_refusal(f"host=db user=ada {name}=''")


def test_an_older_libpq_gets_a_certificate_that_does_not_exist() -> None:
    [(name, path)] = _no_certificate(150000).items()
    assert (name, Path(path).exists()) == ("sslcert", False)


def reason_of_refusal(address: str) -> str:
    """Empty if it is accepted."""
    try:
        addresses().stored(address)
    except InvalidValueError as error:
        return error.message
    return ""


def test_every_keyword_of_libpq_is_accepted_or_refused_with_its_reason() -> None:
    names = {each.keyword.decode() for each in psycopg.pq.Conninfo.get_defaults()}
    refused = set()
    for name in sorted(names - {"host", "user"}):
        reason = reason_of_refusal(f"host=db user=ada {name}='1'")
        assert "does not know" not in reason, name
        if reason.startswith(f"{name} is not allowed in the address of a service: "):
            refused.add(name)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text("utf-8")
    assert {name for name in refused if f"`{name}`" not in page} == set()
    assert {"passfile", "service", "replication"} <= refused
    assert not {"sslcert", "sslpassword", "krbsrvname"} & refused


def test_libpq_takes_nothing_from_the_home_and_the_environment_of_the_server() -> None:
    ours = addresses()
    found = conninfo_to_dict(ours.conninfo(ours.stored("host=db user=ada")))
    assert (found["password"], found["gssencmode"]) == ("", "disable")
    assert not Path(str(found["passfile"])).exists()


def test_secrets_need_a_key_and_keys_can_be_replaced() -> None:
    with pytest.raises(InvalidValueError, match="PENSTOCK_SECRET_KEY"):
        addresses(key="").stored("host=db user=ada password=x")
    assert addresses(key="").stored("host=db user=ada").secret is None
    old, new = new_secret_key(), new_secret_key()
    sealed = SecretBox(old).seal("hunter2")
    assert "hunter2" not in sealed
    assert SecretBox(f"{new},{old}").open(sealed) == "hunter2"
    with pytest.raises(ConfigurationError, match="another key"):
        SecretBox(new).open(sealed)
    with pytest.raises(ConfigurationError, match="is not a key"):
        SecretBox("nonsense")


def test_passwords_are_encrypted_in_the_database(
    http: httpx.Client, db: Db, run: Callable[..., Any]
) -> None:
    body = {"name": "far", "dsn": "host=127.0.0.1 port=1 user=ada", "password": "hunter2"}
    made = http.post("/managed-services", json=body)
    assert made.status_code == 201, made.text
    rows = db.execute("select s::text from penstock.service s").fetchall()
    assert "hunter2" not in str(rows) + made.text
    refused = http.post("/managed-services", json={**body, "name": "b", "password_file": "x"})
    assert (refused.status_code, refused.json()["field"]) == (422, "password")


def test_a_password_from_before_there_was_a_key_is_encrypted_at_the_next_check(
    http: httpx.Client, web: Any, db: Db
) -> None:
    db.execute("select penstock.add_service('far', 'host=127.0.0.1 port=1 user=a password=old')")
    http.post("/managed-services/far/check").raise_for_status()
    query = "select dsn, secret is not null from penstock.service where name = 'far'"
    [(address, is_sealed)] = db.execute(query).fetchall()
    assert (conninfo_to_dict(address).get("password"), is_sealed) == (None, True)


def test_the_page_of_a_service_stores_an_address_only_after_its_test(
    open_client: Callable[..., httpx.Client], make_key: Callable[..., str], dsn: str, db: Db
) -> None:
    db.execute("select penstock.add_service('far', %s)", [dsn])
    browser = open_client()
    browser.post("/login", data={"key": make_key("ada", "admin")})
    form = browser.get("/services/far/change").text
    fields = {"csrf": re.findall(r'name="csrf" value="(\w+)"', form)[0]}
    refused = browser.post("/services/far/change", data={**fields, "dsn": NOWHERE})
    assert (refused.status_code, "not changed" in refused.text) == (409, True)
    query = "select dsn, secret is null from penstock.service where name = 'far'"
    assert db.execute(query).fetchall() == [(dsn, True)]


def test_an_address_that_was_changed_during_a_check_stays(
    http: httpx.Client, web: Any, db: Db, run: Callable[..., Any]
) -> None:
    db.execute("select penstock.add_service('far', 'host=127.0.0.1 port=1 user=a password=old')")
    [due] = run(claim_service_checks(60, "far"))
    run(set_service_address("far", "host=127.0.0.1 port=2 user=a"))
    monitor = web.server.context.monitor
    running = asyncio.run_coroutine_threadsafe(monitor._check(due), monitor._loop.get_loop())
    assert running.result().error is not None
    query = "select dsn, secret, checked_at from penstock.service where name = 'far'"
    assert db.execute(query).fetchall()[0][:2] == ("host=127.0.0.1 port=2 user=a", None)
