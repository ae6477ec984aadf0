"""Topics are created on first use, unless the caller is strict."""

from __future__ import annotations

from penstock.server.transport.routing import Call


def is_strict(call: Call) -> bool:
    """RFC 7240: `Prefer: handling=strict` asks for a 404 if the topic does not exist."""
    preference = (call.header("prefer") or "").replace(" ", "").lower()
    return "handling=strict" in preference.split(",")
