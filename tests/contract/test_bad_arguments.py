"""Arguments of the wrong kind: a clear error, before anything is sent."""

from datetime import datetime, timedelta

import pytest

from penstock.errors import InvalidValueError, PayloadNotStorableError

CIRCLE: list = []
CIRCLE.append(CIRCLE)
DEEP: list = []
for _ in range(100_000):
    DEEP = [DEEP]

NOT_STORABLE = {
    "not a number": (float("nan"), "float"),
    "infinity deep inside": ({"a": [1, {"b": float("-inf")}]}, "float"),
    "a lone surrogate": ("\ud800", "surrogate"),
    "a lone surrogate in a key": ({"\udfff": 1}, "surrogate"),
    "the character NUL": ("a\x00b", "NUL"),
    "NUL behind a backslash": ("\\\x00", "NUL"),
    "NUL in a key": ({"\x00": 1}, "NUL"),
    "an object": (object(), "object is not JSON"),
    "a time": ({"at": datetime(2026, 1, 1)}, "datetime is not JSON"),
    "a set": ({1, 2}, "set is not JSON"),
    "bytes inside JSON": ({"raw": b"x"}, "bytes is not JSON"),
    "a key that is a tuple": ({(1, 2): 3}, "keys"),
    "a circle": (CIRCLE, "ircular"),
    "a well without a bottom": (DEEP, "deep"),
    "an integer of 5,000 digits": (10**5000, "digits"),
}


@pytest.mark.parametrize("case", NOT_STORABLE)
async def test_a_payload_that_cannot_be_stored_is_refused_with_the_reason(disconnected, case):
    payload, reason = NOT_STORABLE[case]
    with pytest.raises(PayloadNotStorableError, match=reason) as caught:
        await disconnected.enqueue("orders", payload)
    assert caught.value.hint
    assert (caught.value.sqlstate, caught.value.http_status) == ("PS006", 422)
    with pytest.raises(PayloadNotStorableError, match=reason):
        await disconnected.enqueue_many("orders", [1, payload])


async def test_json_that_only_looks_like_nul_is_stored(client):
    for text in ("\\u0000", "\\\\u0000", "u0000", "\\\\\\u0000"):
        await client.enqueue("orders", {text: text})
        [lease] = await client.claim("orders")
        assert lease.payload == {text: text}


@pytest.mark.parametrize(
    "headers", [[], ["a"], "text", 5, {1: 2}, {"a": float("nan")}, {"a": "\x00"}, {"a": object()}]
)
async def test_headers_that_are_no_json_object_are_refused(disconnected, headers):
    with pytest.raises(PayloadNotStorableError, match="headers"):
        await disconnected.enqueue("orders", 1, headers=headers)


WRONG_KIND = {
    "queue": ("queue", lambda c: c.enqueue(5, 1)),
    "queue missing": ("queue", lambda c: c.claim(None)),
    "queue with NUL": ("queue", lambda c: c.claim("a\x00")),
    "queue with half a character": ("queue", lambda c: c.claim("\ud800")),
    "key": ("key", lambda c: c.enqueue("orders", 1, key=5)),
    "key with NUL": ("key", lambda c: c.enqueue("orders", 1, key="a\x00")),
    "group": ("group", lambda c: c.enqueue("orders", 1, group=b"g")),
    "priority": ("priority", lambda c: c.enqueue("orders", 1, priority="high")),
    "priority truth": ("priority", lambda c: c.enqueue("orders", 1, priority=True)),
    "priority fraction": ("priority", lambda c: c.enqueue("orders", 1, priority=1.5)),
    "priority missing": ("priority", lambda c: c.enqueue("orders", 1, priority=None)),
    "priority huge": ("priority", lambda c: c.enqueue("orders", 1, priority=10**30)),
    "delay": ("delay", lambda c: c.enqueue("orders", 1, delay="60")),
    "delay truth": ("delay", lambda c: c.enqueue("orders", 1, delay=True)),
    "delay not a number": ("delay", lambda c: c.enqueue("orders", 1, delay=float("nan"))),
    "delay infinite": ("delay", lambda c: c.enqueue("orders", 1, delay=float("inf"))),
    "visible_at": ("visible_at", lambda c: c.enqueue("orders", 1, visible_at="2026-01-01")),
    "ttl": ("ttl", lambda c: c.enqueue("orders", 1, ttl=[1])),
    "max_attempts": ("max_attempts", lambda c: c.enqueue("orders", 1, max_attempts="3")),
    "on_conflict": ("on_conflict", lambda c: c.enqueue("orders", 1, on_conflict="ignore")),
    "unique": ("unique", lambda c: c.enqueue("orders", 1, unique="always")),
    "count": ("count", lambda c: c.claim("orders", "10")),
    "lease_seconds": ("lease_seconds", lambda c: c.claim("orders", lease_seconds="30")),
    "half a second": ("lease_seconds", lambda c: c.claim("orders", lease_seconds=0.5)),
    "worker": ("worker", lambda c: c.claim("orders", worker=5)),
    "lease": ("lease", lambda c: c.ack(5)),
    "lease of three": ("lease", lambda c: c.ack((1, 2, 3))),
    "token": ("token", lambda c: c.ack((1, "2"))),
    "token huge": ("token", lambda c: c.ack((1, 2**63))),
    "one lease for many": ("lease", lambda c: c.ack_many((1, 2))),
    "leases": ("leases", lambda c: c.ack_many(5)),
    "error": ("error", lambda c: c.nack((1, 2), 5)),
    "errors too few": ("error", lambda c: c.nack_many([(1, 2), (3, 4)], ["only one"])),
    "reason": ("reason", lambda c: c.reject((1, 2), b"x")),
    "id": ("id", lambda c: c.cancel("1")),
    "id of a message": ("id", lambda c: c.message(None)),
    "ids": ("ids", lambda c: c.redrive("orders", ids=["1"])),
    "per_second": ("per_second", lambda c: c.redrive("orders", per_second="2")),
    "per_second endless": ("per_second", lambda c: c.redrive("orders", per_second=float("inf"))),
    "dry_run": ("dry_run", lambda c: c.redrive("orders", dry_run="no")),
    "state": ("state", lambda c: c.messages(state="running")),
    "limit": ("limit", lambda c: c.messages(limit=0)),
    "limit too high": ("limit", lambda c: c.messages(limit=10_001)),
    "after": ("after", lambda c: c.messages(after="1")),
    "name": ("name", lambda c: c.create_queue(None)),
    "settings": ("settings", lambda c: c.set_queue("orders", {"max_attempts": 3})),
    "exist_ok": ("exist_ok", lambda c: c.create_queue("q", exist_ok=1)),
    "force": ("force", lambda c: c.drop_queue("orders", force="yes")),
    "connection": ("connection", lambda c: c.enqueue("orders", 1, connection=object())),
}


@pytest.mark.parametrize("case", WRONG_KIND)
async def test_an_argument_of_the_wrong_kind_is_named(disconnected, case):
    field, call = WRONG_KIND[case]
    with pytest.raises(InvalidValueError, match=field) as caught:
        await call(disconnected)
    assert caught.value.field == field
    assert caught.value.allowed


async def test_a_time_without_a_time_zone_is_refused_with_the_way_out(disconnected):
    with pytest.raises(InvalidValueError, match="time zone"):
        await disconnected.enqueue("orders", 1, visible_at=datetime(2026, 1, 1))


async def test_a_length_of_time_past_every_calendar_is_refused(client):
    for delay in (timedelta.max, 10**20):
        with pytest.raises(InvalidValueError):
            await client.enqueue("orders", 1, delay=delay)
