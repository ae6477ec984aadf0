"""The stored answers of calls that may be repeated, and cleanup tasks of the server."""

from __future__ import annotations

from typing import Any, Final

from penstock.commands.command import Command, Rows, call, nothing, scalar
from penstock.commands.payload import decode_json

_RECALL: Final = call(
    "recall_answer",
    "fingerprint, status, body",
    actor="text",
    idempotency_key="text",
    asked="bytea",
)
_KEEP: Final = call(
    "keep_answer", actor="text", idempotency_key="text", status="smallint", body="bytea"
)
_FORGET: Final = call("forget_expired")
_TIDY: Final = call("tidy_server", "tidy_server::text")


def recall_answer(
    actor: str, key: str, fingerprint: bytes
) -> Command[tuple[bytes, int, bytes] | None]:
    """(fingerprint, status, body) of the first call with this key, or None if this is the first."""

    def decode(rows: Rows) -> tuple[bytes, int, bytes] | None:
        return (bytes(rows[0][0]), rows[0][1], bytes(rows[0][2])) if rows else None

    params = {"actor": actor, "idempotency_key": key, "asked": fingerprint}
    return Command(_RECALL, params, decode)


def keep_answer(actor: str, key: str, status: int, body: bytes) -> Command[None]:
    """Store the response for repeated calls, in the transaction of `recall_answer`."""
    params = {"actor": actor, "idempotency_key": key, "status": status, "body": body}
    return Command(_KEEP, params, nothing)


def forget_expired() -> Command[int]:
    """Delete expired messages from the history. The result is their number."""
    return Command(_FORGET, {}, scalar)


def tidy_server() -> Command[dict[str, Any]]:
    """Delete expired data of the server. The result is the number of rows."""
    return Command(_TIDY, {}, lambda rows: decode_json(scalar(rows)))
