"""Reads the statements of `sql/queries`, one file each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def load_query(name: str) -> str:
    """The text of `sql/queries/<name>.sql`."""
    return (
        files("penstock").joinpath("sql", "queries", *f"{name}.sql".split("/")).read_text("utf-8")
    )
