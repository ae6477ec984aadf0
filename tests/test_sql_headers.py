"""Every SQL function and view says what it does, which locks it takes and which index it uses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SQL = Path(__file__).parents[1] / "src" / "penstock" / "sql"
FILES = sorted(
    file
    for folder in ("functions", "contracts", "views")
    for file in (SQL / folder).glob("**/*.sql")
    if "extension" not in file.parts
)
LONGEST = 120
_CREATE = re.compile(r"create (?:or replace )?(function|view) ([\w.{}]+)")
_TABLE = re.compile(
    r"\b(?:from|join|into|update|table|using)\s+(?:only\s+)?(?:penstock|mdb_queue|pgmq)\.\w+(?!\w*\()",
    re.I,
)
_TAKES_LOCKS = re.compile(
    r"\b(setval\(|pg_(try_)?advisory|insert into|update penstock|delete from|lock table|truncate"
    r"|for (no key )?update|for share)",
    re.I,
)
_CALLED = re.compile(r"\b(?:penstock|mdb_queue|pgmq)\.\w+(?=\()")
_LOCKS = re.compile(r"\block(s|ed)?\b", re.I)
_FINDS = re.compile(r"\b(uses?|index(es)?|scans?|scanned|reads?|samples?|place in)\b", re.I)
_USES = re.compile(r"\b[Uu]ses? ((?:[^.]|\.(?=\w))*)")
_REASON = f"longer than {LONGEST} lines because"


@dataclass(frozen=True)
class Definition:
    """A function or a view of a file, with the comment directly above it."""

    file: Path
    kind: str
    name: str
    comment: str
    lines: tuple[str, ...]

    @property
    def touches_tables(self) -> bool:
        return bool(_TABLE.search("\n".join(line.split("--")[0] for line in self.lines)))

    @property
    def code(self) -> str:
        """Without comments and texts. Statements that are executed from a text are not seen."""
        without_comments = "\n".join(line.split("--")[0] for line in self.lines)
        return re.sub(r"'(?:[^']|'')*'", "''", without_comments)

    def __str__(self) -> str:
        return f"{self.file.relative_to(SQL)} {self.name}"


def definitions(file: Path) -> list[Definition]:
    """Overloads of one function share the comment of the first."""
    lines = file.read_text("utf-8").splitlines()
    found: list[Definition] = []
    comments: dict[str, str] = {}
    for index, line in enumerate(lines):
        if match := _CREATE.match(line):
            kind, name = match.groups()
            comment = comment_above(lines, index) or comments.get(name, "")
            comments[name] = comment
            found.append(Definition(file, kind, name, comment, body(lines, index, kind)))
    return found


def body(lines: list[str], start: int, kind: str) -> tuple[str, ...]:
    for index in range(start, len(lines)):
        if lines[index].endswith("$$;" if kind == "function" else ";"):
            return tuple(lines[start : index + 1])
    raise AssertionError(f"no end of {lines[start]!r}")


def comment_above(lines: list[str], index: int) -> str:
    """The comment above a line. Directives and macros may come between the two."""
    while index and lines[index - 1].startswith("--:"):
        index -= 1
        if lines[index] == "--: end":
            while not lines[index].startswith("--: define"):
                index -= 1
    start = index
    while start and re.match(r"--(?!:)", lines[start - 1]):
        start -= 1
    return " ".join(line[2:].strip() for line in lines[start:index])


ALL = [definition for file in FILES for definition in definitions(file)]


def locking() -> set[str]:
    """The functions that lock or set registers, and those that call one of them."""
    functions = [d for d in ALL if d.kind == "function"]
    calls = {d: set(_CALLED.findall(d.code.partition("(")[2])) for d in functions}
    found = {d.name for d in functions if _TAKES_LOCKS.search(d.code)}
    while more := {d.name for d, called in calls.items() if called & found} - found:
        found |= more
    return found


LOCKING = locking()


def test_there_are_definitions_to_check() -> None:
    assert len(ALL) > 400
    assert sum(definition.touches_tables for definition in ALL) > 200


def test_a_function_that_calls_one_that_locks_is_one_that_locks() -> None:
    assert {"penstock._raise_floors", "penstock._sweep", "penstock.claim"} <= LOCKING
    assert not LOCKING & {"penstock._hold_at", "penstock._fail_lost", "penstock._check_name"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SQL)))
def test_headers_say_what_a_function_does_and_what_it_locks_and_uses(file: Path) -> None:
    lacking = []
    for definition in definitions(file):
        is_function = definition.kind == "function"
        needs_locks = is_function and (definition.touches_tables or definition.name in LOCKING)
        if len(definition.comment.split()) < 3 or re.match(r"(Uses|Locks:)", definition.comment):
            lacking.append(f"{definition} does not say what it does")
        elif needs_locks and not _LOCKS.search(definition.comment):
            lacking.append(f"{definition} does not say which locks it takes")
        elif definition.touches_tables and not _FINDS.search(definition.comment):
            lacking.append(f"{definition} does not say which index it uses")
    assert lacking == []


def test_functions_are_short_or_say_why_not() -> None:
    long_functions = {d.name: d.comment for d in ALL if len(d.lines) > LONGEST}
    assert [name for name, comment in long_functions.items() if _REASON not in comment] == []
    assert [d.name for d in ALL if len(d.lines) <= LONGEST and _REASON in d.comment] == []


def test_headers_name_indexes_that_exist(connect: Any) -> None:
    known = {
        name
        for (name,) in connect().execute(
            """select relname::text from pg_class where relnamespace = 'penstock'::regnamespace
               union select proname::text from pg_proc p join pg_namespace n on n.oid = pronamespace
               where n.nspname in ('penstock', 'mdb_queue')"""
        )
    }
    unknown = {
        f"{definition} names {word}"
        for definition in ALL
        for sentence in _USES.findall(definition.comment)
        for word in re.findall(r"(?<![\w.<])[a-z]\w*_\w+", sentence)
        if word.replace("_N", "_0") not in known
    }
    assert unknown == set()
