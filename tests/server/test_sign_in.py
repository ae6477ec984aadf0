"""Sessions of the pages: how they begin and end, and which address is on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from penstock.errors import ConfigurationError
from penstock.server.auth import tokens
from penstock.server.auth.tokens import sign_in_path
from penstock.server.proxies import caller_address, parse_networks
from penstock.server.settings import ServerSettings

Open = Callable[..., httpx.Client]
MakeKey = Callable[..., str]
COOKIE = "penstock_session"


def with_cookie(client: httpx.Client, cookie: str, path: str = "/queues") -> httpx.Response:
    return client.get(path, headers={"Cookie": f"{COOKIE}={cookie}"})


def test_signing_out_ends_the_session_for_every_copy_of_its_cookie(
    open_client: Open, make_key: MakeKey, start_server: Any, web: Any
) -> None:
    key, browser, thief = make_key("ada", "read"), open_client(), open_client()
    browser.post("/login", data={"key": key})
    cookie = browser.cookies[COOKIE]
    other_browser = open_client()
    other_browser.post("/login", data={"key": key})
    assert with_cookie(thief, cookie).status_code == 200
    assert browser.post("/logout").status_code == 303
    assert COOKIE not in browser.cookies
    assert with_cookie(thief, cookie).status_code == 303
    assert with_cookie(thief, cookie, "/live").status_code == 401
    # Another server on the database knows it, too; another session of the key continues.
    other = start_server()
    assert with_cookie(open_client(running=other), cookie).status_code == 303
    assert other_browser.get("/queues").status_code == 200


def test_a_server_that_was_running_learns_of_a_sign_out(
    open_client: Open, make_key: MakeKey, start_server: Any
) -> None:
    other = start_server()
    browser, elsewhere = open_client(), open_client(running=other)
    browser.post("/login", data={"key": make_key("ada", "read")})
    cookie = browser.cookies[COOKIE]
    assert with_cookie(elsewhere, cookie).status_code == 200
    browser.post("/logout")
    other.server.context.auth.forget()  # what passes with time
    assert with_cookie(elsewhere, cookie).status_code == 303


def test_a_link_signs_in_once(open_client: Open, make_key: MakeKey, run: Any) -> None:
    key = make_key("ada", "read")
    path = sign_in_path(run, key)
    assert key not in path
    first, second = open_client(), open_client()
    # Chat programs and proxies look at links before people do.
    assert second.head(path).status_code == 200
    entered = first.get(path)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert first.get("/queues").status_code == 200
    again = second.get(path)
    assert (again.status_code, "expired or was used" in again.text) == (401, True)
    assert COOKIE not in second.cookies


def test_a_link_that_has_expired_or_is_not_ours_signs_nobody_in(
    open_client: Open, make_key: MakeKey, run: Any, db: Any
) -> None:
    path, anybody = sign_in_path(run, make_key("ada", "read")), open_client()
    row = db.execute("select secret, (select id from penstock.api_key) from penstock.server_secret")
    secret, key_id = row.fetchone()
    expired = tokens.issue(secret, "link", key_id, -1)
    session = tokens.issue(secret, "session", key_id, 60)
    for link in (expired, session, path.partition("=")[2] + "x", "", ".", "a.b", "é.é"):
        answer = anybody.get("/login", params={"link": link})
        assert answer.status_code == 401, link
    # Nor is a link a session.
    link = tokens.issue(secret, "link", key_id, 60)
    assert with_cookie(anybody, link).status_code == 303


def test_a_key_in_the_address_signs_nobody_in(open_client: Open, make_key: MakeKey) -> None:
    browser = open_client()
    answer = browser.get("/login", params={"key": make_key("ada", "admin")})
    assert answer.status_code == 200
    assert COOKIE not in browser.cookies
    assert browser.get("/queues").status_code == 303


NEAR = parse_networks("127.0.0.1, 10.0.0.0/8, ::1")


@pytest.mark.parametrize(
    ("peer", "headers", "address"),
    [
        ("127.0.0.1", {}, "127.0.0.1"),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7"}, "192.0.2.7"),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.66, 192.0.2.7, 10.1.2.3"}, "192.0.2.7"),
        ("127.0.0.1", {"X-Forwarded-For": "10.9.9.9, 10.1.2.3"}, "10.9.9.9"),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7:4711"}, "192.0.2.7"),
        ("127.0.0.1", {"X-Forwarded-For": "2001:db8::7"}, "2001:db8::7"),
        ("::1", {"X-Forwarded-For": "192.0.2.7"}, "192.0.2.7"),
        ("::ffff:10.0.0.1", {"X-Forwarded-For": "192.0.2.7"}, "192.0.2.7"),
        ("127.0.0.1", {"Forwarded": 'for="[2001:db8::7]:80";proto=https'}, "2001:db8::7"),
        ("127.0.0.1", {"Forwarded": "for=192.0.2.66, proto=http;For=192.0.2.7"}, "192.0.2.7"),
        # From a caller that is not trusted, the header has no effect.
        ("192.0.2.1", {"X-Forwarded-For": "192.0.2.7"}, "192.0.2.1"),
        ("192.0.2.1", {"Forwarded": "for=192.0.2.7"}, "192.0.2.1"),
        # What cannot be read ends the chain.
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7, nonsense"}, "127.0.0.1"),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7, unknown, 10.1.1.1"}, "10.1.1.1"),
        ("127.0.0.1", {"Forwarded": "for=_hidden"}, "127.0.0.1"),
        ("127.0.0.1", {"X-Forwarded-For": ""}, "127.0.0.1"),
        # A caller sends one, its proxy adds the other: neither can be believed.
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=1.1.1.1"}, "127.0.0.1"),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.7"}, "192.0.2.7"),
    ],
)
def test_addresses_are_taken_from_trusted_proxies_alone(
    peer: str, headers: dict[str, str], address: str
) -> None:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    assert caller_address({"client": (peer, 1), "headers": raw}, NEAR) == address
    assert caller_address({"client": (peer, 1), "headers": raw}, ()) == peer


def test_the_record_and_the_throttle_know_the_caller_behind_a_proxy(
    start_server: Any, open_client: Open, make_key: MakeKey
) -> None:
    proxied = start_server(trusted_proxies=NEAR)
    admin = open_client(make_key("admin", "admin"), proxied)
    for number, name in enumerate(("a", "b")):
        # Two lines of one header are one list.
        headers = [("X-Forwarded-For", "192.0.2.66"), ("X-Forwarded-For", f"192.0.2.{number}")]
        made = admin.post("/api/topic-configs", json={"topic": name}, headers=headers)
        assert made.status_code == 201
    items = admin.get("/api/admin/activity").json()["items"]
    assert [item["address"] for item in items] == ["192.0.2.1", "192.0.2.0"]
    unknown = {"Authorization": f"Bearer psk_{'a' * 12}_{'b' * 43}"}
    far = {"X-Forwarded-For": "192.0.2.9"}
    anybody = open_client(running=proxied)
    for _ in range(ServerSettings().auth_failures):
        assert anybody.get("/api/stats", headers={**unknown, **far}).status_code == 401
    assert anybody.get("/api/stats", headers={**unknown, **far}).status_code == 429
    far["X-Forwarded-For"] = "192.0.2.10"
    assert anybody.get("/api/stats", headers={**unknown, **far}).status_code == 401


def test_the_setting_takes_addresses_and_networks() -> None:
    found = ServerSettings.from_environment({"PENSTOCK_TRUSTED_PROXIES": "10.0.0.0/8, ::1"})
    assert [str(each) for each in found.trusted_proxies] == ["10.0.0.0/8", "::1/128"]
    assert ServerSettings.from_environment({}).trusted_proxies == ()
    with pytest.raises(ConfigurationError, match="PENSTOCK_TRUSTED_PROXIES"):
        ServerSettings.from_environment({"PENSTOCK_TRUSTED_PROXIES": "proxy.example"})
