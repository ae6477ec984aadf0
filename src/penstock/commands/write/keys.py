"""API keys of the HTTP server, and the log of operators' actions. Secrets are hashed already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, call, nothing, scalar
from penstock.commands.payload import encode_json

_NEW_KEY: Final = {"id": "text", "name": "text", "secret_hash": "text", "grants": "text[]"}
_CREATE: Final = call("create_key", **_NEW_KEY, created_by="text", expires_at="timestamptz")
_REVOKE: Final = call("revoke_key", key="text", revoked_by="text")
_SET: Final = call("set_key", key="text", settings="jsonb")
_NOTE_USE: Final = call("note_key_use", ids="text[]")
_END_TOKEN: Final = call("end_token", id="text")
_SECRET: Final = call("_server_secret", proposed="bytea")
_RECORD: Final = call(
    "record_activity",
    actor="text",
    act="text",
    target="text",
    details="jsonb",
    request_id="text",
    address="text",
)


def create_key(
    id: str,
    name: str,
    secret_hash: str,
    grants: Sequence[str],
    *,
    created_by: str | None = None,
    expires_at: datetime | None = None,
) -> Command[None]:
    """Create a key. ApiKeyExistsError if a valid one has its name."""
    params = {
        "id": id,
        "name": check.text("name", name),
        "secret_hash": secret_hash,
        "grants": list(grants),
        "created_by": check.optional_text("created_by", created_by),
        "expires_at": check.moment("expires_at", expires_at),
    }
    return Command(_CREATE, params, nothing)


def revoke_key(key: str, *, revoked_by: str | None = None) -> Command[None]:
    """Revoke a valid key, by its name or id."""
    params = {
        "key": check.text("key", key),
        "revoked_by": check.optional_text("revoked_by", revoked_by),
    }
    return Command(_REVOKE, params, nothing)


def set_key(key: str, settings: Mapping[str, Any]) -> Command[None]:
    """Change `grants`, or `expires_at`, which is None for a key that does not expire."""
    params = {
        "key": check.text("key", key),
        "settings": encode_json(
            {
                name: value.isoformat() if isinstance(value, datetime) else value
                for name, value in settings.items()
            },
            "settings",
        ),
    }
    return Command(_SET, params, nothing)


def note_key_use(ids: Sequence[str]) -> Command[None]:
    """Record that these keys are in use, to within five minutes."""
    return Command(_NOTE_USE, {"ids": list(ids)}, nothing)


def server_secret(proposed: bytes) -> Command[bytes]:
    """The signing key of all servers on this database. If there is none, it is `proposed`."""
    return Command(_SECRET, {"proposed": proposed}, lambda rows: bytes(scalar(rows)))


def end_token(id: str) -> Command[bool]:
    """End a signed token of the HTTP server: a session, or a sign-in link. True the first time."""
    return Command(_END_TOKEN, {"id": id}, scalar)


def record_activity(
    actor: str,
    act: str,
    target: str | None = None,
    details: Mapping[str, Any] | None = None,
    *,
    request_id: str | None = None,
    address: str | None = None,
) -> Command[int]:
    """Record an operator's action. The result is the id of the record."""
    params = {
        "actor": check.text("actor", actor),
        "act": check.text("act", act),
        "target": check.optional_text("target", target),
        "details": None if details is None else encode_json(dict(details), "details"),
        "request_id": check.optional_text("request_id", request_id),
        "address": check.optional_text("address", address),
    }
    return Command(_RECORD, params, scalar)
