"""The sources contain no text twice: twelve equal lines in a row are a function that is missing."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 11
"""So many equal lines may follow each other in two places. Blank lines do not count."""
KINDS = (".py", ".sql", ".html", ".js", ".css", ".md", ".toml")
# Generated files, and applied migrations, which repeat the schema and are never edited.
EXEMPT = ("src/penstock/sql/generated/", "src/penstock/sql/migrations/")


def duplicates(texts: Mapping[str, str]) -> list[str]:
    """Each first pair of places with more than LONGEST equal lines, as `file:line = file:line`."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, text in texts.items():
        lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        for start in range(len(lines) - LONGEST):
            window = lines[start : start + LONGEST + 1]
            places[tuple(line for _, line in window)].append((name, window[0][0]))
    found: dict[tuple[str, str], str] = {}
    for (first, line), *others in (each for each in places.values() if len(each) > 1):
        for other, other_line in others:
            found.setdefault((first, other), f"{first}:{line} = {other}:{other_line}")
    return list(found.values())


def sources() -> Iterable[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "src"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in listed.split("\0"):
        if name.endswith(KINDS) and not name.startswith(EXEMPT) and (ROOT / name).exists():
            yield name


def is_generated(text: str) -> bool:
    return bool(re.match("# Generated from .* by tools/", text))


def test_no_twelve_lines_of_the_sources_exist_twice() -> None:
    texts = {name: (ROOT / name).read_text("utf-8") for name in sources()}
    assert len(texts) > 500
    assert duplicates({name: t for name, t in texts.items() if not is_generated(t)}) == []


def test_twelve_equal_lines_are_found_and_eleven_are_not() -> None:
    lines = [f"line {n}" for n in range(12)]
    same = "\n\n    ".join(lines)
    found = duplicates({"a.py": "\n".join(["x", *lines]), "b.py": same})
    assert found == ["a.py:2 = b.py:1"]
    assert duplicates({"a.py": "\n".join([*lines[:6], "y", *lines[6:]]), "b.py": same}) == []
    assert duplicates({"a.py": "\n".join([*lines, *lines])}) == ["a.py:1 = a.py:13"]
