"""The statements of sql/lake, one file each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    return files("penstock").joinpath("sql", "lake", f"{name}.sql").read_text("utf-8")
