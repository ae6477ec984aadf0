"""Generate the sync client from the async one; `--check` fails if it is out of date.

Statements under `if ASYNC` are left out, and those under its `else` take their place. The rest is
translated token by token, so that comments and layout stay and the result reads like code written
by hand. No name of the table below may appear in an f-string: Python 3.11 has f-strings as one
token, later versions in parts.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import Final, TypeGuard

PACKAGE: Final = Path(__file__).resolve().parent.parent / "src" / "penstock"
PAIRS: Final = {
    "db/async_plain_execute.py": "db/sync_plain_execute.py",
    "db/async_sqlalchemy.py": "db/sync_sqlalchemy.py",
    "db/async_connections.py": "db/sync_connections.py",
    "client/async_command_runner.py": "client/sync_command_runner.py",
    "client/async_leases.py": "client/sync_leases.py",
    "client/async_chunks.py": "client/sync_chunks.py",
    "client/async_messages.py": "client/sync_messages.py",
    "client/async_queues.py": "client/sync_queues.py",
    "client/async_schedules.py": "client/sync_schedules.py",
    "client/async_settling.py": "client/sync_settling.py",
    "client/async_client.py": "client/sync_client.py",
    "http_client/async_connection.py": "http_client/sync_connection.py",
    "http_client/async_client.py": "http_client/sync_client.py",
}
NOTICE: Final = "# Generated from {source} by tools/generate_client.py. Do not edit.\n"
DROPPED: Final = {"async", "await"}
NAMES: Final = {
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AsyncClient": "Client",
    "AsyncCommandRunner": "CommandRunner",
    "AsyncConnection": "Connection",
    "AsyncConnectionPool": "ConnectionPool",
    "AsyncConnections": "Connections",
    "AsyncCursor": "Cursor",
    "AsyncExitStack": "ExitStack",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "AsyncHttpConnection": "HttpConnection",
    "AsyncLeases": "Leases",
    "AsyncMessageVerbs": "MessageVerbs",
    "AsyncQueueVerbs": "QueueVerbs",
    "AsyncPlainExecutor": "PlainExecutor",
    "AsyncScheduleVerbs": "ScheduleVerbs",
    "AsyncSettlingVerbs": "SettlingVerbs",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aclosing": "closing",
    "anext": "next",
    "asynccontextmanager": "contextmanager",
    "asyncio": "threading",
    "async_chunks": "sync_chunks",
    "async_client": "sync_client",
    "async_command_runner": "sync_command_runner",
    "async_connection": "sync_connection",
    "async_connections": "sync_connections",
    "async_check": "check",
    "async_executor": "executor",
    "async_leases": "sync_leases",
    "async_messages": "sync_messages",
    "async_queues": "sync_queues",
    "async_plain_execute": "sync_plain_execute",
    "async_schedules": "sync_schedules",
    "async_settling": "sync_settling",
    "async_sqlalchemy": "sync_sqlalchemy",
    "enter_async_context": "enter_context",
}
# Where the async side takes either kind, the sync side would say the same thing twice.
PHRASES: Final = {
    "Iterable[Any] | Iterable[Any]": "Iterable[Any]",
    "import Iterable, Iterable": "import Iterable",
    "Callable[[Command[Any], Any], Awaitable[Any]]": "Callable[[Command[Any], Any], Any]",
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
    text = _translate(_without_async_branches((PACKAGE / source).read_text("utf-8")))
    for phrase, shorter in PHRASES.items():
        text = text.replace(phrase, shorter)
    return _formatted(NOTICE.format(source=source) + text)


def _without_async_branches(text: str) -> str:
    """Replace `if ASYNC` and `if ASYNC and ...` by their `else`, and drop the constant `ASYNC`."""
    lines = text.splitlines(keepends=True)
    found = [node for node in ast.walk(ast.parse(text)) if _is_async_only(node)]
    for node in sorted(found, key=lambda node: -node.lineno):
        otherwise = node.orelse if isinstance(node, ast.If) else []
        kept = lines[otherwise[0].lineno - 1 : otherwise[-1].end_lineno] if otherwise else []
        shift = otherwise[0].col_offset - node.col_offset if otherwise else 0
        lines[node.lineno - 1 : node.end_lineno] = [line[shift:] or line for line in kept]
    return "".join(lines)


def _is_async_only(node: ast.AST) -> TypeGuard[ast.If | ast.AnnAssign]:
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and node.target.id == "ASYNC"
    if not isinstance(node, ast.If):
        return False
    test = node.test.values[0] if isinstance(node.test, ast.BoolOp) else node.test
    return isinstance(test, ast.Name) and test.id == "ASYNC"


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
    sorted_imports = _ruff(["check", "--select", "I,F401", "--fix", "--quiet", "-"], text)
    return _ruff(["format", "-"], sorted_imports)


def _ruff(arguments: list[str], text: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", "src/penstock/x.py"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, cwd=PACKAGE.parent.parent
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
