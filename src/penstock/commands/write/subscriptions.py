"""Create, change and drop subscriptions, and record their deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, call, nothing
from penstock.commands.payload import encode_json

CHANNEL: Final = "penstock_subscriptions"
_CREATE: Final = call(
    "create_subscription", name="text", queue="text", url="text", settings="jsonb",
    created_by="text",
)  # fmt: skip
_SET: Final = call("set_subscription", name="text", settings="jsonb")
_DROP: Final = call("drop_subscription", name="text")
_NOTE: Final = call(
    "note_deliveries", name="text", version="integer", delivered="bigint", failed="bigint",
    last_error="text", disabled_reason="text",
)  # fmt: skip


def create_subscription(
    name: str,
    queue: str,
    url: str,
    settings: Mapping[str, Any] | None = None,
    *,
    created_by: str | None = None,
) -> Command[None]:
    """Send the messages of a queue to a URL. `settings` are those of `set_subscription`."""
    params = {
        "name": check.text("name", name),
        "queue": check.text("queue", queue),
        "url": check.text("url", url),
        "settings": encode_json(dict(settings or {}), "settings"),
        "created_by": created_by,
    }
    return Command(_CREATE, params, nothing)


def set_subscription(name: str, settings: Mapping[str, Any]) -> Command[None]:
    """Change `url`, `secret` (encrypted), `concurrency`, `timeout_seconds` or `enabled`."""
    params = {
        "name": check.text("name", name),
        "settings": encode_json(dict(settings), "settings"),
    }
    return Command(_SET, params, nothing)


def drop_subscription(name: str) -> Command[None]:
    """Drop a subscription. The messages of its queue stay."""
    return Command(_DROP, {"name": check.text("name", name)}, nothing)


def note_deliveries(
    name: str,
    version: int,
    delivered: int,
    failed: int,
    last_error: str | None,
    disabled_reason: str | None = None,
) -> Command[None]:
    """Record deliveries. A reason disables the subscription."""
    params = {
        "name": name,
        "version": version,
        "delivered": delivered,
        "failed": failed,
        "last_error": check.note("last_error", last_error),
        "disabled_reason": disabled_reason,
    }
    return Command(_NOTE, params, nothing)
