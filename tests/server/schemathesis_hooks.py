"""What schemathesis cannot know: loaded by its command line, see test_schemathesis.py."""

from __future__ import annotations

import re
from typing import Any, get_args
from uuid import uuid4

import schemathesis
from hypothesis import strategies as st

from penstock.model.message_page import BrowseState

_FIELD = st.sampled_from(["*", "*/5", "1", "1-3", "2,4"])
_RULES = st.one_of(
    st.sampled_from(["", "@hourly", "@daily", "@weekly", "@monthly", "@yearly"]),
    st.tuples(*[_FIELD] * 5).map(" ".join),
)
schemathesis.openapi.format("cron", _RULES)
schemathesis.openapi.format("time-zone", st.sampled_from(["UTC", "Europe/Berlin", "Asia/Tokyo"]))


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """It knows only the older keyword for objects that refuse unknown fields."""
    for part in raw_schema["components"]["schemas"].values():
        _refuse_unknown_fields(part)


def _refuse_unknown_fields(part: Any) -> None:
    if isinstance(part, dict):
        if "unevaluatedProperties" in part:
            part["additionalProperties"] = part.pop("unevaluatedProperties")
        for each in part.values():
            _refuse_unknown_fields(each)


@schemathesis.hook
def before_call(ctx: Any, case: Any, kwargs: Any) -> None:
    """Long polls that find nothing would take too long, so they wait a second, not 20."""
    if case.operation.path == "/api/messages/dequeue" and isinstance(case.body, dict):
        seconds = case.body.get("wait_seconds")
        if isinstance(seconds, int | float) and 1 < seconds <= 20 and seconds == int(seconds):
            case.body["wait_seconds"] = 1
    if case.operation.path == "/api/messages/stream" and "topic" in (case.query or {}):
        case.query.setdefault("duration_seconds", 0)
    _make_consistent(case.operation.path, case.body)
    # A key that was used for another call is refused. Schemathesis cannot know which were used.
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and re.fullmatch("[!-~]{1,255}", key):
        case.headers["Idempotency-Key"] = uuid4().hex


def _make_consistent(path: str, body: Any) -> None:
    """Rules that no schema states: addresses, a delay or a time, what a bulk act needs."""
    if not isinstance(body, dict):
        return
    messages = body.get("messages") if path == "/api/messages" else None
    for each in [body, *(messages if isinstance(messages, list) else [])]:
        if not isinstance(each, dict) or not isinstance(each.get("visible_at"), str):
            continue
        if re.fullmatch(r"\d{4}-\d\d-\d\dT.*", each["visible_at"]):
            each["visible_at"] = "2030-01-31T12:00:00Z"
            each.pop("delay_seconds", None)
    _make_addresses_valid(path, body)
    if path == "/api/bulk-acts" and body.get("act") in _STATES and body.get("state") in _ALL_STATES:
        body["state"] = _STATES[body["act"]]
        if body["act"] == "move":
            body["to_topic"] = body.get("to_topic") or "moved"
        if body["act"] == "set_priority" and body.get("priority") is None:
            body["priority"] = 1


def _make_addresses_valid(path: str, body: dict[str, Any]) -> None:
    for field, value in _ADDRESSES.items():
        if isinstance(body.get(field), str) and len(body[field]) <= 1000:
            body[field] = value
    if path.startswith("/managed-services"):  # one password at most, and only files that exist
        body.pop("password", None)
        body.pop("password_file", None)


_ADDRESSES = {
    "url": "https://example.com/hook",
    "dsn": "host=127.0.0.1 port=1 user=u",
    "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}
_STATES = {
    "cancel": "ready",
    "redrive": "dead",
    "replay": "done",
    "move": "ready",
    "set_priority": "ready",
}
_ALL_STATES = get_args(BrowseState)
