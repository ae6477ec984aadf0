"""The user that the server runs as. PostgreSQL refuses root, so root uses another user."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.errors import ConfigurationError

# The first that exists on this machine. macOS calls it `_postgres`.
CANDIDATES: Final = ("postgres", "_postgres", "nobody")
# The server ignores the caller's PGPORT, PGDATA and locale.
ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True, slots=True)
class Account:
    """Another user runs the server for root, and may not connect to it."""

    uid: int
    gid: int
    stand_in: bool = False

    @property
    def is_self(self) -> bool:
        return self.uid == os.geteuid()

    def run(
        self, command: Sequence[str | Path], *, cwd: Path, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command as this user. Both of its outputs are returned as one text."""
        as_user: dict[str, Any] = {}
        if not self.is_self:
            as_user = {"user": self.uid, "group": self.gid, "extra_groups": []}
        return subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env=ENVIRONMENT,
            umask=0o077,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            **as_user,
        )

    def may_enter(self, path: Path) -> bool:
        """Whether the user can enter all directories of the path, and enter or run its end."""
        return (
            self.is_self
            or self.run(["sh", "-c", 'test -x "$0"', path], cwd=Path("/")).returncode == 0
        )

    def give(self, path: Path | int) -> None:
        if not self.is_self:
            os.chown(path, self.uid, self.gid)


def choose(home: Path, data: Path) -> Account:
    """The current user. For root, the owner of the home, or another user if root owns it."""
    me = os.geteuid()
    if me != 0:
        _check_owner(data, me)
        return Account(me, os.getegid())
    owner = home.stat()
    if owner.st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    if data.exists():
        # The user does not change later, because another user could not read the data.
        return Account(data.stat().st_uid, data.stat().st_gid, stand_in=True)
    return _stand_in()


def _check_owner(data: Path, me: int) -> None:
    try:
        owner = data.stat().st_uid
    except FileNotFoundError:
        return
    except PermissionError:
        owner = None
    if owner != me:
        raise ConfigurationError(
            f"{data} does not belong to {user_name(me)}, who runs Penstock",
            hint="Set PENSTOCK_HOME to a directory that you own.",
        )


def _stand_in() -> Account:
    for name in CANDIDATES:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(user.pw_uid, user.pw_gid, stand_in=True)
    raise ConfigurationError(
        "PostgreSQL cannot run as root, and none of the users "
        f"{', '.join(CANDIDATES)} exists on this machine",
        hint="Run Penstock as another user, or set PENSTOCK_DSN to a PostgreSQL.",
    )


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
