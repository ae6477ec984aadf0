"""The first key. It is created automatically in the embedded database, which only this machine
can reach.

In a database that the user has named, the user creates the first key.
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
    """The first key, if it is known: a new one, or that of an earlier start.

    `home` is the directory of the embedded database. It has a file with the key that only its
    owner can read.
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
            f"there is no API key, and none is created automatically because {reason}",
            hint="Create one first: `penstock key create admin --scope admin`, "
            "with the same --dsn or environment.",
        )
    made = new_key("admin", ["admin"], created_by="penstock up")
    try:
        run(made.command)
    except ApiKeyExistsError:  # another server has just created it
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
