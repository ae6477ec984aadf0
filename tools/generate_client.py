"""Writes the sync client from the async one; `--check` says whether that was done.

Token by token, not through the syntax tree: comments and layout stay, so that the result reads
like code written by hand. What differs by more than a word is in penstock/twins.py. No name of
the table below may stand in an f-string: Python 3.11 has them whole, later ones in parts.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent.parent / "src" / "penstock"
PAIRS: Final = {
    "streams_async.py": "streams.py",
    "connections_async.py": "connections.py",
    "client_schedules_async.py": "client_schedules.py",
    "client_async.py": "client.py",
    "http/line_async.py": "http/line.py",
    "http/client_async.py": "http/client.py",
}
NOTICE: Final = (
    "# Generated from {source} by tools/generate_client.py: change that file, not this.\n"
)
DROPPED: Final = {"async", "await"}
NAMES: Final = {
    "AsyncAlone": "Alone",
    "AsyncClient": "Client",
    "AsyncConnection": "Connection",
    "AsyncConnectionPool": "ConnectionPool",
    "AsyncConnections": "Connections",
    "AsyncCursor": "Cursor",
    "AsyncExitStack": "ExitStack",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "AsyncLine": "Line",
    "AsyncScheduleVerbs": "ScheduleVerbs",
    "AsyncStream": "Stream",
    "AsyncTogether": "Together",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aclosing": "closing",
    "anext": "next",
    "asynccontextmanager": "contextmanager",
    "asyncio": "threading",
    "check_async": "check",
    "client_async": "client",
    "client_schedules_async": "client_schedules",
    "connections_async": "connections",
    "driver_connection_async": "driver_connection",
    "each_async": "each",
    "enter_async_context": "enter_context",
    "line_async": "line",
    "locate_async": "locate",
    "streams_async": "streams",
    "use_iso_dates_async": "use_iso_dates",
}
# Where the async side takes either kind, the sync side would say the same thing twice.
PHRASES: Final = {
    "Iterable[Any] | Iterable[Any]": "Iterable[Any]",
    "import Iterable, Iterable": "import Iterable",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    check = parser.parse_args().check
    stale = [target for source, target in PAIRS.items() if not _is_current(source, target)]
    if not check:
        for source, target in PAIRS.items():
            (PACKAGE / target).write_text(generate(source), "utf-8")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run: python tools/generate_client.py")
        return 1
    return 0


def _is_current(source: str, target: str) -> bool:
    path = PACKAGE / target
    return path.exists() and path.read_text("utf-8") == generate(source)


def generate(source: str) -> str:
    """The sync text of an async module."""
    text = _translate((PACKAGE / source).read_text("utf-8"))
    for phrase, shorter in PHRASES.items():
        text = text.replace(phrase, shorter)
    return _formatted(NOTICE.format(source=source) + text)


def _translate(text: str) -> str:
    """Each token copied with the space before it, or renamed, or dropped with the space after."""
    lines = text.splitlines(keepends=True)
    written: list[str] = []
    row, column, skip_space = 1, 0, False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        space = _between(lines, (row, column), token.start)
        written.append("" if skip_space else space)
        skip_space = token.type == tokenize.NAME and token.string in DROPPED
        written.append("" if skip_space else _renamed(token))
        row, column = token.end
    return "".join(written)


def _renamed(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return NAMES.get(token.string, token.string)
    if token.type == tokenize.STRING and token.string.startswith('"'):
        # In prose and messages, classes are named as well.
        return token.string.replace("AsyncConnection", "Connection")
    return token.string


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """The text between two tokens: spaces, and the backslash of a continued line."""
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]] if start[0] <= len(lines) else ""
    first = lines[start[0] - 1][start[1] :]
    middle = "".join(lines[start[0] : end[0] - 1])
    last = lines[end[0] - 1][: end[1]] if end[0] <= len(lines) else ""
    return first + middle + last


def _formatted(text: str) -> str:
    """As ruff writes it: lines are shorter without `await`, and imports sort differently."""
    sorted_imports = _ruff(["check", "--select", "I", "--fix", "--quiet", "-"], text)
    return _ruff(["format", "-"], sorted_imports)


def _ruff(arguments: list[str], text: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", "src/penstock/x.py"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, cwd=PACKAGE.parent.parent
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
