"""Topics are created on first use, unless the caller is strict."""

from __future__ import annotations

from penstock.errors import InvalidQueueNameError
from penstock.server.transport.routing import Call


def is_strict(call: Call) -> bool:
    """RFC 7240: `Prefer: handling=strict` asks for a 404 if the topic does not exist."""
    preference = (call.header("prefer") or "").replace(" ", "").lower()
    return "handling=strict" in preference.split(",")


def check_new_topic(topic: str) -> None:
    """Internal topics are for the server: no key may enqueue into them or create one."""
    if topic.startswith("penstock."):
        raise InvalidQueueNameError(
            f"topic {topic!r} is reserved: names that begin with 'penstock.' are internal",
            hint="Choose another name.",
            queue=topic,
            field="topic",
        )
