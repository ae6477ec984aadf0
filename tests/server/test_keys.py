"""API keys over HTTP and on their page: made within the maker's scopes, shown once, revoked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from penstock.model.access import Grant

Open = Callable[..., httpx.Client]
MakeKey = Callable[..., str]


def test_a_key_is_made_used_listed_and_revoked(http: httpx.Client, open_client: Open) -> None:
    body = {"name": "shop", "scopes": ["enqueue:orders-*"], "expires_in_seconds": 3600}
    made = http.post("/api/keys", json=body)
    assert made.status_code == 201, made.text
    key = made.json()["key"]
    shop = open_client(key)
    assert shop.post("/api/messages", json={"topic": "orders-1", "json": 1}).status_code == 201
    assert shop.post("/api/messages", json={"topic": "emails", "json": 1}).status_code == 403
    listed = http.get("/api/keys")
    assert key not in listed.text
    [found] = [each for each in listed.json()["items"] if each["name"] == "shop"]
    assert (found["scopes"], found["created_by"]) == (["enqueue:orders-*"], "admin")
    left = datetime.fromisoformat(found["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left < timedelta(minutes=61)
    assert http.get("/api/keys/shop").json() == http.get(f"/api/keys/{found['id']}").json()
    ended = http.delete("/api/keys/shop").json()
    assert (ended["live"], ended["revoked_by"]) == (False, "admin")
    refused = shop.post("/api/messages", json={"topic": "orders-1", "json": 1})
    assert refused.status_code == 401
    assert http.get("/api/keys/shop").status_code == 404
    names = [each["name"] for each in http.get("/api/keys?ended=true").json()["items"]]
    assert names == ["shop", "admin"]
    acts = http.get("/api/admin/activity").json()["items"]
    assert [(act["act"], act["target"]) for act in acts] == [
        ("revoke key", "shop"), ("create key", "shop"),
    ]  # fmt: skip
    assert key not in http.get("/api/admin/activity").text


@pytest.mark.parametrize(
    ("own", "wanted", "allowed"),
    [
        (["admin"], ["admin"], True),
        (["admin:orders-*"], ["admin:orders-*", "read:orders-1"], True),
        (["admin:orders-*"], ["read"], False),
        (["admin:orders-*"], ["read:*"], False),
        (["admin:orders-*"], ["read:orders"], False),
        (["admin:orders-*"], ["read:orders-*", "read:emails"], False),
        (["admin:orders-?"], ["read:orders-*"], False),
        (["admin:orders-?"], ["read:orders-1"], True),
        (["admin:orders-[12]"], ["read:orders-[12]"], True),
        (["admin:orders-[12]"], ["read:orders-*"], False),
        (["admin:x", "read"], ["read"], True),
        (["admin:x", "read"], ["operate"], False),
        (["admin:x", "operate"], ["enqueue"], False),
    ],
)
def test_a_key_never_grants_more_than_its_maker_has(
    own: list[str], wanted: list[str], allowed: bool, shared: httpx.Client
) -> None:
    name = f"maker-{abs(hash((*own, *wanted)))}"
    maker = shared.post("/api/keys", json={"name": name, "scopes": own}).json()["key"]
    headers = {"Authorization": f"Bearer {maker}"}
    body = {"name": f"{name}-2", "scopes": wanted}
    made = shared.post("/api/keys", json=body, headers=headers)
    assert made.status_code == (201 if allowed else 403), made.text


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("a*", "*a"), ("?", "*"), ("a?c", "a*c"), ("*a", "a*"), ("[!a]*", "b*"), ("??", "[ab]")],
)
def test_a_pattern_that_may_match_more_is_not_included(wide: str, narrow: str) -> None:
    assert not Grant("read", wide).includes(Grant("read", narrow))


def test_an_admin_of_some_queues_manages_keys_of_those_only(
    http: httpx.Client, open_client: Open, make_key: MakeKey
) -> None:
    some = open_client(make_key("team", "admin:orders-*"))
    make_key("other", "read:emails")
    make_key("own", "read:orders-1")
    assert {each["name"] for each in some.get("/api/keys").json()["items"]} == {"team", "own"}
    assert some.delete("/api/keys/other").status_code == 403
    assert some.delete("/api/keys/admin").status_code == 403
    # A key may have the id of another as its name. Revoking it would end both.
    victim = http.get("/api/keys/admin").json()["id"]
    body = {"name": victim, "scopes": ["read:orders-1"]}
    assert some.post("/api/keys", json=body).status_code == 201
    assert some.delete(f"/api/keys/{victim}").status_code == 403
    assert http.get("/api/keys/admin").json()["live"]
    assert some.delete("/api/keys/own").status_code == 200


def test_a_key_ends_no_later_than_the_key_that_made_it(
    open_client: Open, make_key: MakeKey
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    brief = open_client(make_key("brief", "admin", expires_at=soon))
    for seconds in (None, 86_400):
        body = {"name": f"k{seconds}", "scopes": ["read"], "expires_in_seconds": seconds}
        made = brief.post("/api/keys", json=body).json()
        assert abs(datetime.fromisoformat(made["expires_at"]) - soon) < timedelta(seconds=1)


def test_bad_keys_are_refused_with_the_reason(http: httpx.Client) -> None:
    for body, status in (
        ({"name": "a b", "scopes": ["read"]}, 422),
        ({"name": "x", "scopes": []}, 422),
        ({"name": "x", "scopes": ["rule"]}, 422),
        ({"name": "x", "scopes": ["read:"]}, 422),
        ({"name": "admin", "scopes": ["read"]}, 409),
        ({"name": "x"}, 400),
    ):
        assert http.post("/api/keys", json=body).status_code == status, body


def flush(web: Any) -> None:
    """What the server does every half minute."""
    uses = web.server.context.auth.uses
    asyncio.run_coroutine_threadsafe(uses.flush(), uses._task.get_loop()).result()


def test_the_last_use_is_written_now_and_then_and_not_for_each_request(
    web: Any, http: httpx.Client, make_key: MakeKey, db: Any
) -> None:
    make_key("idle", "read")
    for _ in range(20):
        assert http.get("/api/stats").status_code == 200
    query = "select name, last_used_at from penstock.api_keys order by name"
    assert db.execute(query).fetchall() == [("admin", None), ("idle", None)]
    flush(web)
    first = dict(db.execute(query).fetchall())
    assert first["idle"] is None
    assert datetime.now(UTC) - first["admin"] < timedelta(minutes=1)
    http.get("/api/stats")
    flush(web)
    assert dict(db.execute(query).fetchall()) == first
    db.execute("update penstock.api_key_use set used_at = used_at - interval '6 minutes'")
    http.get("/api/stats")
    flush(web)
    assert dict(db.execute(query).fetchall())["admin"] >= first["admin"]


def test_the_form_shows_a_key_once_and_the_page_never(open_client: Open, make_key: MakeKey) -> None:
    browser = open_client()
    browser.post("/login", data={"key": make_key("ada", "admin:orders-*")})
    form = browser.get("/keys/create").text
    token = re.findall(r'name="csrf" value="(\w+)"', form)[0]
    fields = {"csrf": token, "name": "shop", "scopes": "read:orders-1, enqueue:orders-1"}
    made = browser.post("/keys/create", data=fields)
    assert (made.status_code, made.headers["cache-control"]) == (200, "no-store")
    key = re.findall(r"psk_[\w-]+", made.text)[0]
    assert open_client(key).get("/api/stats").status_code == 200
    page = browser.get("/keys").text
    assert "shop" in page
    assert key not in page
    again = browser.post("/keys/create", data=fields)
    assert again.status_code == 409
    assert "already exists" in again.text
    refused = browser.post("/keys/create", data={**fields, "name": "more", "scopes": "read"})
    assert refused.status_code == 403
    gone = browser.post("/keys/shop/revoke", data={"csrf": token})
    assert gone.status_code == 303
    assert open_client(key).get("/api/stats").status_code == 401


def test_scopes_and_end_of_a_key_are_changed(http: httpx.Client, open_client: Open) -> None:
    body = {"name": "shop", "scopes": ["read:orders-*"], "expires_in_seconds": 3600}
    made = http.post("/api/keys", json=body).json()
    shop = open_client(made["key"])
    enqueue = {"topic": "orders-1", "json": 1}
    assert shop.post("/api/messages", json=enqueue).status_code == 403
    changed = http.patch("/api/keys/shop", json={"scopes": ["enqueue:orders-*"]}).json()
    assert (changed["id"], changed["scopes"]) == (made["id"], ["enqueue:orders-*"])
    assert changed["expires_at"] == made["expires_at"]
    assert shop.post("/api/messages", json=enqueue).status_code == 201
    assert shop.get("/api/stats?topic=orders-1").status_code == 403
    endless = http.patch(f"/api/keys/{made['id']}", json={"expires_in_seconds": None}).json()
    assert (endless["expires_at"], endless["scopes"]) == (None, ["enqueue:orders-*"])
    later = http.patch("/api/keys/shop", json={"expires_in_seconds": 7200}).json()["expires_at"]
    assert later > made["expires_at"]
    for bad, status in (
        ({"scopes": []}, 422),
        ({"scopes": ["rule"]}, 422),
        ({"scopes": None}, 400),
        ({"expires_in_seconds": 0}, 422),
        ({"name": "other"}, 400),
    ):
        assert http.patch("/api/keys/shop", json=bad).status_code == status, bad
    assert http.patch("/api/keys/nobody", json={"scopes": ["read"]}).status_code == 404
    acts = http.get("/api/admin/activity").json()["items"]
    assert [(act["act"], act["target"]) for act in acts][:3] == [("set key", "shop")] * 3
    assert acts[0]["details"]["expires_at"][:19] == later[:19]


def test_a_key_changes_only_keys_within_its_own_scopes_to_scopes_within_them(
    http: httpx.Client, open_client: Open, make_key: MakeKey
) -> None:
    some = open_client(make_key("team", "admin:orders-*"))
    make_key("other", "read:emails")
    make_key("own", "read:orders-1")
    for key, scopes, status in (
        ("own", ["operate:orders-1"], 200),
        ("own", ["read"], 403),
        ("own", ["operate:orders-1", "read:emails"], 403),
        ("other", ["read:orders-1"], 403),
        ("admin", ["read:orders-1"], 403),
        ("team", ["admin"], 403),
    ):
        answer = some.patch(f"/api/keys/{key}", json={"scopes": scopes})
        assert answer.status_code == status, (key, scopes, answer.text)
    assert some.patch("/api/keys/other", json={"expires_in_seconds": 1}).status_code == 403
    assert http.get("/api/keys/own").json()["scopes"] == ["operate:orders-1"]
    assert http.get("/api/keys/admin").json()["scopes"] == ["admin"]


def test_a_key_that_gains_a_scope_ends_no_later_than_the_key_that_gave_it(
    open_client: Open, make_key: MakeKey
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    brief = open_client(make_key("brief", "admin", expires_at=soon))
    make_key("shop", "operate")
    narrowed = brief.patch("/api/keys/shop", json={"scopes": ["read"]}).json()
    assert narrowed["expires_at"] is None
    for body in (
        {"scopes": ["read", "enqueue"]},
        {"expires_in_seconds": None},
        {"expires_in_seconds": 86_400},
    ):
        changed = brief.patch("/api/keys/shop", json=body).json()
        assert abs(datetime.fromisoformat(changed["expires_at"]) - soon) < timedelta(seconds=1)
    own = brief.patch("/api/keys/brief", json={"expires_in_seconds": None}).json()
    assert abs(datetime.fromisoformat(own["expires_at"]) - soon) < timedelta(seconds=1)


def test_the_form_changes_a_key(open_client: Open, make_key: MakeKey, http: httpx.Client) -> None:
    browser = open_client()
    browser.post("/login", data={"key": make_key("ada", "admin:orders-*")})
    make_key("shop", "read:orders-1")
    form = browser.get("/keys/shop/edit").text
    assert 'value="read:orders-1"' in form
    token = re.findall(r'name="csrf" value="(\w+)"', form)[0]
    fields = {"csrf": token, "scopes": "read:orders-1, enqueue:orders-1", "expires": "30"}
    assert browser.post("/keys/shop/edit", data=fields).status_code == 303
    found = http.get("/api/keys/shop").json()
    assert found["scopes"] == ["read:orders-1", "enqueue:orders-1"]
    left = datetime.fromisoformat(found["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29) < left < timedelta(days=31)
    kept = {**fields, "scopes": "read:orders-1", "expires": "kept"}
    assert browser.post("/keys/shop/edit", data=kept).status_code == 303
    assert http.get("/api/keys/shop").json()["expires_at"] == found["expires_at"]
    refused = browser.post("/keys/shop/edit", data={**fields, "scopes": "read"})
    assert refused.status_code == 403
    browser.post("/login", data={"key": make_key("eve", "admin")})
    assert "Changed API key shop: read:orders-1, expires 20" in browser.get("/activity").text
