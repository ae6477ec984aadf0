"""Topics that may not be there yet: made on first use, unless the caller is strict."""

from __future__ import annotations

from penstock.server.transport.routing import Call


def is_strict(call: Call) -> bool:
    """RFC 7240: `Prefer: handling=strict` wants a 404 for a topic that nobody made."""
    preference = (call.header("prefer") or "").replace(" ", "").lower()
    return "handling=strict" in preference.split(",")
