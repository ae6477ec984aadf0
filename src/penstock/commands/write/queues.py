"""Create, change, pause, purge and drop queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, call, nothing, scalar
from penstock.commands.payload import decode_json, encode_json
from penstock.model.queue import QueueSettings

_CREATE: Final = call("create_queue", name="text", settings="jsonb", exist_ok="boolean")
_SET: Final = call("set_queue", name="text", settings="jsonb")
_DROP: Final = call("drop_queue", name="text", force="boolean")
_PAUSE: Final = call("pause", name="text")
_RESUME: Final = call("resume", name="text")
_PURGE: Final = call("purge", name="text", include_leased="boolean", max_count="bigint")
_UNDO_PURGE: Final = call("undo_purge", name="text")
_MAINTAIN: Final = call("maintain", "maintain::text", full_pass="boolean")


def create_queue(
    name: str,
    settings: QueueSettings | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    exist_ok: bool = False,
) -> Command[bool]:
    """Create a queue.

    Args:
        name: The name of the queue.
        settings: The settings. The default is that of `QueueSettings`.
        changes: Single settings by name, which take precedence over `settings`.
        exist_ok: Whether an existing queue is accepted. It is not changed.

    Returns:
        A command whose result is True if the queue was created.
    """
    params = {
        "name": check.text("name", name),
        "settings": _settings(settings, changes),
        "exist_ok": check.truth("exist_ok", exist_ok),
    }
    return Command(_CREATE, params, scalar)


def set_queue(
    name: str, settings: QueueSettings | None = None, changes: Mapping[str, Any] | None = None
) -> Command[None]:
    """Change settings of a queue.

    Args:
        name: The name of the queue.
        settings: The settings. Those that it does not set stay unchanged.
        changes: Single settings by name. None resets a setting to its default.
    """
    params = {"name": check.text("name", name), "settings": _settings(settings, changes)}
    return Command(_SET, params, nothing)


def drop_queue(name: str, *, force: bool = False) -> Command[int]:
    """Drop a queue.

    See `Client.drop_queue` for the parameters and the result.
    """
    params = {"name": check.text("name", name), "force": check.truth("force", force)}
    return Command(_DROP, params, scalar)


def pause(name: str) -> Command[None]:
    """Stop delivering the messages of a queue.

    See `Client.pause` for the parameters and the result.
    """
    return Command(_PAUSE, {"name": check.text("name", name)}, nothing)


def resume(name: str) -> Command[None]:
    """Deliver the messages of a queue again.

    See `Client.resume` for the parameters and the result.
    """
    return Command(_RESUME, {"name": check.text("name", name)}, nothing)


def purge(name: str, *, include_leased: bool = False, max_count: int | None = None) -> Command[int]:
    """Delete the waiting messages of a queue, or the dead letters of `<queue>.dlq`.

    See `Client.purge` for the parameters and the result.
    """
    params = {
        "name": check.text("name", name),
        "include_leased": check.truth("include_leased", include_leased),
        "max_count": check.optional_whole("max_count", max_count, check.INT8),
    }
    return Command(_PURGE, params, scalar)


def undo_purge(name: str) -> Command[int]:
    """Enqueue copies of the messages that the latest purge of the last hour deleted.

    See `Client.undo_purge` for the parameters and the result.
    """
    return Command(_UNDO_PURGE, {"name": check.text("name", name)}, scalar)


def maintain(*, full_pass: bool = False) -> Command[dict[str, Any]]:
    """Do the maintenance now that claims do from time to time.

    See `Client.maintain` for the parameters and the result.
    """
    params = {"full_pass": check.truth("full_pass", full_pass)}
    return Command(_MAINTAIN, params, lambda rows: decode_json(scalar(rows)))


def _settings(settings: QueueSettings | None, changes: Mapping[str, Any] | None) -> str:
    if settings is not None and not isinstance(settings, QueueSettings):
        raise check.refuse("settings", settings, "QueueSettings; single ones go by name")
    chosen = {**(settings.as_dict() if settings else {}), **(changes or {})}
    plain = {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in chosen.items()
    }
    return encode_json(plain, "settings")
