"""Writes a new project with a small working example."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

from penstock.errors import ConfigurationError

FILES: Final = (
    "lake_project.py",
    "customers.csv",
    "handle_orders.py",
    "test_lake_project.py",
    "README.md",
)


def create_project(directory: Path) -> list[Path]:
    """The files of a new project. It never replaces one."""
    places = [directory / name for name in FILES]
    if existing := [place for place in places if place.exists()]:
        raise ConfigurationError(
            f"{existing[0]} exists", hint="Nothing was changed. Name another directory."
        )
    directory.mkdir(parents=True, exist_ok=True)
    template = files("penstock.lake.project") / "template"
    for place in places:
        place.write_bytes((template / place.name).read_bytes())
    return places
