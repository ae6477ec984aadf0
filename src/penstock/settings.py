"""Where Penstock finds its database: every setting, read and checked at once.

| variable        | meaning                                                                |
|-----------------|------------------------------------------------------------------------|
| `PENSTOCK_DSN`  | the PostgreSQL to use: a `postgresql://` URL or `key=value` pairs      |
| `DATABASE_URL`  | the same, where other software has set it already                      |
| `PENSTOCK_HOME` | where the embedded PostgreSQL keeps its data, if no other was named;   |
|                 | else `$XDG_DATA_HOME/penstock`, else `$HOME/.local/share/penstock`,    |
|                 | and `/var/lib/penstock` for root, unless HOME is not root's own        |
| `PENSTOCK_LAKE` | where the lake is: a directory, or a URI that Spark knows; else        |
|                 | `lake` below `PENSTOCK_HOME`                                           |
| `PENSTOCK_LAKE_PROJECT` | the project of the lake: its directory, or its file            |
| `PENSTOCK_FAST_PATHS` | `off`: use only the documented interfaces of psycopg and uvicorn |
|                 | (slower; for a version of these packages that was not tested)          |

A variable set to nothing counts as not set.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from penstock.errors import ConfigurationError

ALLOWED_DSN: Final = (
    "Allowed are postgresql://user:password@host:port/database and libpq's key=value pairs"
)
# The schemes that SQLAlchemy, Django and hosting providers use for the same address.
_SCHEME: Final = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
_ANY_SCHEME: Final = re.compile(r"([A-Za-z][\w+.-]*)://")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings. `dsn` is None if no PostgreSQL is named, and the embedded one is used."""

    dsn: str | None
    home: Path

    @classmethod
    def from_environment(
        cls, dsn: str | None = None, environment: Mapping[str, str] | None = None
    ) -> Settings:
        """Read the settings. `dsn`, from the command line or a caller, takes precedence."""
        found = os.environ if environment is None else environment
        return cls(dsn=_find_dsn(dsn, found), home=_find_home(found))


def lake_path(named: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """The path of the lake. `named`, from the command line, takes precedence."""
    found = os.environ if environment is None else environment
    if named is not None and not named.strip():
        raise ConfigurationError("the path of the lake is empty", hint="Give a directory or a URI.")
    return named or found.get("PENSTOCK_LAKE", "").strip() or str(_find_home(found) / "lake")


def lake_project(
    named: str | None = None, environment: Mapping[str, str] | None = None
) -> str | None:
    """The path of the lake's project, or None. `named`, from the command line, takes precedence."""
    found = os.environ if environment is None else environment
    return named or found.get("PENSTOCK_LAKE_PROJECT", "").strip() or None


def fast_paths(environment: Mapping[str, str] | None = None) -> bool:
    """Whether internals of psycopg and uvicorn may be used."""
    found = os.environ if environment is None else environment
    chosen = found.get("PENSTOCK_FAST_PATHS", "").strip() or "on"
    if chosen not in ("on", "off"):
        raise ConfigurationError(
            f"PENSTOCK_FAST_PATHS is {chosen!r}", hint="Set it to on or off, or leave it unset."
        )
    return chosen == "on"


def _find_dsn(explicit: str | None, environment: Mapping[str, str]) -> str | None:
    if explicit is not None:
        # Not taken for unset: `--dsn "$TYPO"` must not end up in another database.
        return normalise_dsn(explicit, "the DSN")
    for variable in ("PENSTOCK_DSN", "DATABASE_URL"):
        if value := environment.get(variable, "").strip():
            return normalise_dsn(value, variable)
    return None


def normalise_dsn(dsn: str, source: str = "the DSN") -> str:
    """The DSN in the form that libpq reads. `source` names its origin in errors."""
    dsn = dsn.strip()
    if not dsn:
        raise ConfigurationError(f"{source} is empty", hint=f"{ALLOWED_DSN}.")
    scheme = _ANY_SCHEME.match(dsn)
    if scheme and not _SCHEME.match(dsn):
        raise ConfigurationError(
            f"{source} names a {scheme[1]} database, not PostgreSQL",
            hint=f"{ALLOWED_DSN}."
            if source == "dsn"  # the address of a service
            else f"{ALLOWED_DSN}. PENSTOCK_DSN and --dsn take precedence over DATABASE_URL.",
        )
    dsn = _SCHEME.sub("postgresql://", dsn, count=1) if scheme else dsn
    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise ConfigurationError(
            f"{source} is not an address of PostgreSQL: {_without_secrets(str(error), dsn)}",
            hint=f"{ALLOWED_DSN}.",
        ) from None
    return dsn


def _without_secrets(reason: str, dsn: str) -> str:
    """libpq quotes the text that it cannot read, which may contain the password."""
    if not dsn.startswith("postgresql://"):
        reason = re.sub(r'"[^"]*"', '"..."', reason)
    return " ".join(reason.replace(dsn, "...").split())


def _find_home(environment: Mapping[str, str]) -> Path:
    if named := environment.get("PENSTOCK_HOME", "").strip():
        return _checked_home(_expand(named, environment))
    data_home = environment.get("XDG_DATA_HOME", "").strip()
    if data_home.startswith("/"):  # the XDG rules say: ignore a relative one
        return Path(data_home) / "penstock"
    if os.geteuid() == 0 and not _is_elsewhere(environment.get("HOME", "").strip()):
        # PostgreSQL refuses to run as root, and no other user may enter root's home.
        return Path("/var/lib/penstock")
    return _user_home(environment) / ".local" / "share" / "penstock"


def _is_elsewhere(home: str) -> bool:
    """Whether HOME differs from the user database, which means that it was set on purpose."""
    try:
        return home != "" and os.path.abspath(home) != pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return home != ""


def _checked_home(home: Path) -> Path:
    if home.exists() and not home.is_dir():
        raise ConfigurationError(
            f"PENSTOCK_HOME is {home}, which is not a directory",
            hint="Give a directory. It is created if it is missing.",
        )
    return home


def _expand(named: str, environment: Mapping[str, str]) -> Path:
    if named == "~" or named.startswith("~/"):
        return _user_home(environment) / named[2:]
    return Path(os.path.abspath(named))


def _user_home(environment: Mapping[str, str]) -> Path:
    # Services and containers may run without HOME, so the user database is asked.
    if home := environment.get("HOME", "").strip():
        return Path(os.path.abspath(home))
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        raise ConfigurationError(
            f"user {os.geteuid()} has no home directory, and PENSTOCK_HOME is not set",
            hint="Set PENSTOCK_HOME to a directory, or PENSTOCK_DSN to a PostgreSQL.",
        ) from None
