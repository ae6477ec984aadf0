"""The output of a command: one JSON document, a rich table, or plain columns."""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

EMPTY = "-"
WORDS = {True: "yes", False: "no", None: EMPTY}
# A terminal has little room. These columns are shown only if a row has a value in them.
OPTIONAL = ("key", "group")


class Screen:
    """stdout has the result and nothing else. Everything else goes to stderr."""

    def __init__(self) -> None:
        self.out = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.err = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    @property
    def interactive(self) -> bool:
        return self.out.is_terminal

    def line(self, text: str) -> None:
        self.out.print(Text(text))

    def document(self, value: Any) -> None:
        """Print one complete JSON document on stdout."""
        sys.stdout.write(as_json(value) + "\n")

    def raw(self, text: str) -> None:
        """Print text for a program such as psql, unchanged."""
        sys.stdout.write(text)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        cells = [[cell(value) for value in row] for row in rows]
        if self.interactive:
            self._rich_table(columns, cells)
        else:
            self._plain_table(columns, cells)

    def fields(self, pairs: Mapping[str, Any]) -> None:
        """A record, one field in each line."""
        width = max(map(len, pairs), default=0)
        for name, value in pairs.items():
            self.out.print(Text.assemble((f"{name.ljust(width)}  ", "bold"), cell(value)))

    def _rich_table(self, columns: Sequence[str], rows: list[list[str]]) -> None:
        used = [n for n, name in enumerate(columns) if name not in OPTIONAL or _any(rows, n)]
        table = Table(header_style="bold")
        for number in used:
            table.add_column(columns[number], justify=_side(rows, number), overflow="fold")
        for row in rows:
            table.add_row(*(Text(row[number]) for number in used))
        # soft_wrap would let rows exceed the width and break the frame.
        self.out.print(table, soft_wrap=False)

    def _plain_table(self, columns: Sequence[str], rows: list[list[str]]) -> None:
        """Nothing is cut or wrapped, because a pipe has no width."""
        lines = [[name.upper() for name in columns], *rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for row in lines:
            padded = (text.ljust(width) for text, width in zip(row, widths, strict=True))
            self.line("  ".join(padded).rstrip())


def _any(rows: list[list[str]], column: int) -> bool:
    return any(row[column] != EMPTY for row in rows)


def _side(rows: list[list[str]], column: int) -> Any:
    numbers = all(row[column].lstrip("-").replace(".", "", 1).isdigit() for row in rows)
    return "right" if rows and numbers else "left"


def as_json(value: Any) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Converts values that JSON does not have."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


def cell(value: Any) -> str:
    """A value as text that is safe on a terminal."""
    if value is None or isinstance(value, bool):
        return WORDS[value]
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, timedelta):
        return duration(value.total_seconds())
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping | list | tuple):
        return printable(as_json(value))
    return printable(str(value))


def printable(text: str) -> str:
    """Payloads and error texts are untrusted, so escape codes are removed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(value: Any, width: int = 60) -> str:
    text = cell(value)
    return text if len(text) <= width else text[: width - 1] + "…"


def duration(seconds: float | None) -> str:
    """`20 ms`, `4 s`, `3 min`, `5 h`, `9 d`: the magnitude of an age."""
    if seconds is None:
        return EMPTY
    if 0 < seconds < 0.95:
        return f"{cell(round(seconds * 1000, 1 if seconds < 0.01 else None))} ms"
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return f"{cell(round(seconds / size, 1))} {unit}"
    return f"{seconds / 86400:.0f} d"
