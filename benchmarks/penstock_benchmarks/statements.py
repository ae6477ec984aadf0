"""The statements of statements.sql, by name."""

from functools import cache
from importlib.resources import files

_MARK = "-- name: "


@cache
def _statements() -> dict[str, str]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in resource("statements.sql").splitlines():
        if line.startswith(_MARK):
            lines = found.setdefault(line.removeprefix(_MARK).strip(), [])
        else:
            lines.append(line)
    return {name: "\n".join(body).strip() for name, body in found.items()}


def statement(name: str) -> str:
    return _statements()[name]


def plain_table(order: str) -> str:
    """plain_table.sql, with messages claimed in this order, and indexed for it."""
    return resource("plain_table.sql").replace("visible_at /* order */", order)


def resource(name: str) -> str:
    """The text of an SQL file of this package."""
    return (files("penstock_benchmarks") / name).read_text(encoding="utf-8")
