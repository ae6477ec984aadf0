"""The first key: made unasked in the embedded database, where only this machine can call.

A database that was named is somebody's own: what opens it is made by who runs it, and asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from penstock.commands import read
from penstock.commands.command import Command
from penstock.errors import ApiKeyExistsError, ConfigurationError
from penstock.server.auth.api_keys import key_id, new_key
from penstock.server.settings import ServerSettings

FILE: Final = "admin.key"
Run = Callable[[Command[Any]], Any]


def admin_key(run: Run, settings: ServerSettings, home: Path | None) -> str | None:
    """The key to print, if it is known: one just made, or that of an earlier start.

    `home` is that of the embedded database; there the key is kept, for its owner's eyes only.
    """
    live = run(read.keys())
    if live:
        kept = _kept(home)
        return kept if kept and any(key.id == key_id(kept) for key in live) else None
    if home is None or not settings.is_loopback:
        reason = (
            f"{settings.host} can be reached from other machines"
            if home is not None
            else "the database is your own"
        )
        raise ConfigurationError(
            f"there is no API key, and none is made unasked where {reason}",
            hint="Make one first: `penstock key create admin --scope admin`, "
            "with the same --dsn or environment.",
        )
    made = new_key("admin", ["admin"], created_by="penstock up")
    try:
        run(made.command)
    except ApiKeyExistsError:  # another server of the same moment was first
        return _kept(home)
    _keep(home / FILE, made.token)
    return made.token


def _kept(home: Path | None) -> str | None:
    try:
        return (home / FILE).read_text("ascii").strip() if home is not None else None
    except (OSError, UnicodeDecodeError):
        return None


def _keep(path: Path, token: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
