"""The statements of sql/queries/importing, by file and name; relations and columns go in quoted."""

from functools import cache
from typing import Any

from psycopg import sql

from penstock.sql.loader import load_query

_MARK = "-- name: "


@cache
def _statements(file: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in load_query(f"importing/{file}").splitlines():
        if line.startswith(_MARK):
            lines = found.setdefault(line.removeprefix(_MARK).strip(), [])
        elif not line.startswith("--"):
            lines.append(line)
    return {name: "\n".join(body).strip() for name, body in found.items()}


def statement(file: str, name: str, **parts: sql.Composable) -> sql.Composed:
    # Any: what a .sql file of this package says is not input of a user.
    text: Any = _statements(file)[name]
    return sql.SQL(text).format(**parts)
