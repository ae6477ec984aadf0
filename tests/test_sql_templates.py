"""The template language of the SQL files, and the files that are generated from them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from tests.conftest import Connect

import penstock.sql
from penstock.sql.expand import Expander
from penstock.sql.template import Macro, TemplateError, definitions, expand, lines_of

ROOT = Path(__file__).parents[1]
SQL = Path(penstock.sql.__file__).parent
SOURCES = ("functions", "views", "contracts", "schema", "layout", "roles", "queries")


def expanded(text: str, **macros: str) -> str:
    known = {name: Macro(body) for name, body in macros.items()}
    known["ring.last_segment"] = Macro("8")
    return "\n".join(expand(lines_of("f.sql", text), known))


def without_markers(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("-- from ")]


def test_a_block_is_repeated_for_each_segment_with_its_source() -> None:
    made = expanded("begin\n--: for each segment\ncall {slot};\n--: end\nend").splitlines()
    assert made[:3] == ["begin", "-- from f.sql:3, segment 0", "call 0;"]
    assert made[17:] == ["-- from f.sql:3, segment 8", "call 8;", "-- from f.sql:5", "end"]


def test_a_created_object_is_preceded_by_its_source() -> None:
    assert expanded("-- A view.\ncreate view v as\nselect 1;").splitlines() == [
        "-- A view.",
        "-- from f.sql:2",
        "create view v as",
        "select 1;",
    ]


def test_the_layout_of_the_ring_says_how_many_segments_there_are() -> None:
    text = "--: for each ring segment\n{slot}\n--: end\n--: branch on slot\n{slot}\n--: end"
    made = "\n".join(expand(lines_of("f.sql", text), {"ring.last_segment": Macro("2")}))
    assert [line for line in without_markers(made) if line.isdigit()] == list("12012")
    with pytest.raises(TemplateError, match=r"f.sql:1: {ring.last_segment} is not defined"):
        list(expand(lines_of("f.sql", text), {}))


def test_the_layout_of_history_says_how_many_slots_there_are() -> None:
    lines = lines_of("f.sql", "--: for each history slot\n{slot}\n--: end")
    made = "\n".join(expand(lines, {"history.last_slot": Macro("2")}))
    assert without_markers(made) == ["0", "1", "2"]


@pytest.mark.parametrize("slot", range(9))
def test_a_branch_reaches_its_segment_in_four_comparisons(slot: int) -> None:
    lines = without_markers(expanded("--: branch on slot\ncall {slot};\n--: end"))
    compared, skipping, depth, found = 0, 0, 0, []
    for line in lines:
        if line.startswith("if "):
            depth += 1
            if not skipping:
                compared += 1
                skipping = 0 if slot <= int(line.split()[3]) else depth
        elif line == "else":
            skipping = 0 if skipping == depth else skipping or depth
        elif line == "end if;":
            skipping = 0 if skipping == depth else skipping
            depth -= 1
        elif not skipping:
            found.append(line)
    assert found == [f"call {slot};"]
    assert compared <= 4


def test_macros_take_arguments_and_nest() -> None:
    macros = definitions(
        lines_of(
            "layout.sql",
            "-- A picture.\n"
            "--: define token.segment(token) as ({token} & 15)\n"
            "--: define both(left, right) as {left} + {right}\n"
            "--: define many as\nfirst,\nsecond\n--: end",
        )
    )
    [line] = expand(lines_of("f.sql", "select {both({token.segment(f(a, b))}, c | d)};"), macros)
    assert line == "select (f(a, b) & 15) + (c | d);"
    assert without_markers("\n".join(expand(lines_of("f.sql", "{many}"), macros))) == [
        "first,",
        "second",
    ]


def test_a_variant_repeats_the_file_with_its_replacements() -> None:
    text = "--: variant other\n--:   f( => g(\n--:   f. => g.\ncreate f(x) _f( f.x a.f.x;"
    assert without_markers(expanded(text)) == [
        "create f(x) _f( f.x a.f.x;",
        "create g(x) _f( g.x a.f.x;",
    ]


def test_braces_that_are_not_placeholders_stay() -> None:
    text = """select '{}', '{"a": 1}', '^[a-z]{1,128}$', '{0}'::int[];"""
    assert expanded(text) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("--: variant v\n--:   f( => g(\nselect h();", r"f.sql:2: the file does not contain 'f\('"),
        ("--:   f( => g(", "f.sql:1: a replacement must follow a variant"),
        ("select {unknown};", "f.sql:1: {unknown} is not defined"),
        ("select {given(1)};", "f.sql:1: {given} takes 0 arguments"),
        ("select {given(\n1)};", "f.sql:1: a placeholder must end on the line"),
        ("--: for each segment\nx", "f.sql:1: there is no `--: end`"),
        ("--: for each segment\n--: branch on slot\n--: end", "f.sql:2: blocks do not nest"),
        ("--: for each queue\nx\n--: end", "f.sql:1: there is no directive 'for each queue'"),
        ("--: end", "f.sql:1: there is no `--: end`"),
        ("--: define given as 2", "f.sql:1: {given} is defined already"),
        ("--: define nothing", "f.sql:1: write `define"),
    ],
)
def test_a_wrong_template_is_an_error_that_names_the_line(text: str, problem: str) -> None:
    with pytest.raises(TemplateError, match=problem):
        expanded(text, given="1")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The SQL of the package, to change."""
    shutil.copytree(SQL, tmp_path / "sql")
    return tmp_path / "sql"


def generate(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "generate_sql.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_generated_files_are_up_to_date() -> None:
    assert generate("--check").stdout == ""


def test_a_changed_source_is_noticed_and_generated(copy: Path) -> None:
    source = copy / "functions" / "common" / "schema_version.sql"
    source.write_text(source.read_text("utf-8").replace("max(version), 0", "max(version), 7"))
    (copy / "generated" / "old.sql").write_text("")
    checked = generate("--check", "--sql", str(copy))
    assert (checked.returncode, "functions.sql, old.sql" in checked.stdout) == (1, True)
    assert generate("--sql", str(copy)).returncode == 0
    assert "max(version), 7" in (copy / "generated" / "functions.sql").read_text("utf-8")
    assert generate("--check", "--sql", str(copy)).returncode == 0


def test_files_come_behind_those_that_they_need(copy: Path) -> None:
    (copy / "views" / "a.sql").write_text(
        "create or replace view penstock.a as table penstock.z;\n"
    )
    (copy / "views" / "z.sql").write_text("create or replace view penstock.z as select 1;\n")
    made = Expander(copy).folder("views")
    assert made.index("view penstock.z") < made.index("view penstock.a ")
    (copy / "views" / "z.sql").write_text(
        "create or replace view penstock.z as table penstock.a;\n"
    )
    with pytest.raises(TemplateError, match=r"need each other: views/a.sql, views/z.sql"):
        Expander(copy).folder("views")


def test_every_marker_leads_to_the_line_it_was_made_from() -> None:
    made = (SQL / "generated" / "functions.sql").read_text("utf-8").splitlines()
    seen = 0
    for marker, line in pairwise(made):
        place = re.fullmatch(r"-- from (\S+):(\d+)(, segment \d)?", marker)
        if place and line.startswith("create "):
            lines = (SQL / place[1]).read_text("utf-8").splitlines()
            begin = lines[int(place[2]) - 1].split("(")[0].split("{")[0]
            renamed = [x.split(" => ")[1] for x in lines if x.startswith("--:") and " => " in x]
            assert begin in line or any(name.strip() in line for name in renamed)
            seen += 1
    assert seen > 300


def sources(generated: str) -> Iterator[tuple[str, int, str]]:
    """The file and the number that the markers give for each line, and the line."""
    file, number = "", 0
    for line in generated.splitlines():
        if marker := re.fullmatch(r"-- from (\S+):(\d+)(?:, segment \d+)?", line):
            file, number = marker[1], int(marker[2])
        else:
            yield file, number, line
            number += 1


def test_markers_lead_into_a_macro_and_back() -> None:
    layout = (
        "-- Rows.\n--: define inner as\na,\nb\n--: end\n"
        "--: define row(t) as\n{t},\n{inner}\n--: end"
    )
    macros = definitions(lines_of("row.sql", layout)) | {"ring.last_segment": Macro("0")}
    text = (
        "create f\n--: for each segment\nselect {row({slot})} from t\nwhere {inner}\n--: end\nend"
    )
    made = "\n".join(expand(lines_of("f.sql", text), macros))
    assert list(sources(made)) == [
        ("f.sql", 1, "create f"),
        ("f.sql", 3, "select"),
        ("row.sql", 7, "0,"),
        ("row.sql", 3, "a,"),
        ("row.sql", 4, "b"),
        ("f.sql", 3, " from t"),
        ("f.sql", 4, "where"),
        ("row.sql", 3, "a,"),
        ("row.sql", 4, "b"),
        ("f.sql", 6, "end"),
    ]


def test_every_generated_line_leads_to_its_source() -> None:
    texts = {
        str(file.relative_to(SQL)): file.read_text("utf-8").splitlines()
        for folder in SOURCES
        for file in (SQL / folder).rglob("*.sql")
    }
    branch = re.compile(r"if slot <= \d+ then|else|end if;")
    seen = 0
    for name in ("functions.sql", "views.sql", "mdb_queue.sql", "pgmq.sql"):
        for file, number, line in sources((SQL / "generated" / name).read_text("utf-8")):
            if not file or not line.strip() or line.startswith("--") or branch.fullmatch(line):
                continue
            source = texts[file][number - 1]
            if "{" not in source and not any(x.startswith("--: variant") for x in texts[file]):
                assert line == source, f"{file}:{number}"
                seen += 1
    assert seen > 10_000


def test_the_position_of_an_error_leads_to_the_line_of_the_macro(connect: Connect) -> None:
    macros = definitions(lines_of("row.sql", "--: define columns as\n1 as a,\n1 / 0 as b\n--: end"))
    text = (
        "create function pg_temp.f() returns setof record language sql as $$\n"
        "select {columns},\n  unknown_column\n$$"
    )
    made = "\n".join(expand(lines_of("f.sql", text), macros))
    with pytest.raises(psycopg.errors.UndefinedColumn) as caught:
        connect().execute(made)
    position = int(caught.value.diag.statement_position or 0)
    at = made[: position - 1].count("\n")
    markers = sum(line.startswith("-- from ") for line in made.splitlines()[:at])
    assert list(sources(made))[at - markers][:2] == ("f.sql", 3)


def test_the_parameters_reach_the_functions() -> None:
    claim = Expander(hold_from=3, clock="penstock._clock()").file("functions/claim/claim.sql")
    assert "claim.count < 3" in claim
    assert "penstock._clock()" in claim
    assert "clock_timestamp()" not in claim


def test_a_clock_that_no_file_uses_is_an_error(copy: Path) -> None:
    for file in (copy / "contracts" / "mdb_queue").glob("*.sql"):
        file.write_text(file.read_text("utf-8").replace("clock_timestamp()", "now()"))
    with pytest.raises(TemplateError, match=r"contracts/mdb_queue: no file uses clock_timestamp"):
        Expander(copy, clock="penstock._clock()").folder("contracts/mdb_queue")


def test_every_definition_of_the_layout_is_used() -> None:
    text = "\n".join(f.read_text("utf-8") for d in SOURCES for f in (SQL / d).rglob("*.sql"))
    for file in (SQL / "layout").glob("*.sql"):
        for name in definitions(lines_of(file.name, file.read_text("utf-8"))):
            assert re.search(rf"\{{{re.escape(name)}[(}}]", text), name


def test_magic_numbers_stand_in_the_layout_only() -> None:
    """Bits of tokens and registers, lock keys, digits of the ring, slots, and times of claims."""
    found = [
        f"{file.relative_to(SQL)}: {line}"
        for folder in SOURCES
        if folder != "layout"
        for file in (SQL / folder).rglob("*.sql")
        if "extension" not in file.parts
        for line in file.read_text("utf-8").splitlines()
        if is_magic(line, in_engine=file.parent.name in ENGINE)
    ]
    assert found == []


# Areas of functions/ that work on tokens, registers, segments and times in microseconds.
ENGINE = {"common", "storage", "enqueue", "claim", "settle", "background"}
MAGIC = re.compile(
    # Shifts and masks by any number, digits of the ring, slots, SQLSTATEs, and short times.
    r"(?:<<|>>|[^|]\||&) ?(?:bigint '|~)?\d|% (?:10\b|16\b|bigint ')|, '9'|generate_series\(0, \d"
    r"|'PS001' then|sqlstate 'PS|'\d+ microseconds'|float8 '(?:5e5|1\.5e6|1\.05e7)'"
    r"|\b18856956\d\d\b|\b32768\b"
    # Numbers in sums and comparisons with times.
    r"|_[mu]s [-+] \d{2,}\b|_[mu]s (?:not )?between \d+ and \d+"
)
# The limits of arguments, which error messages and docs/reference name, and SQLSTATE 42501.
LIMITS = {"65536", "16384", "42501"}


def is_magic(line: str, *, in_engine: bool) -> bool:
    """In the engine every remainder and every number of five digits has a name, too."""
    code = line.split("--")[0]
    named = set(re.findall(r"% \d{1,4}\b|\b\d{5,}\b", code)) - LIMITS - {"% 1"}
    return bool(MAGIC.search(code) or (named and in_engine) or re.search(r"\b\d{15,}\b", code))


@pytest.mark.parametrize(
    "line",
    [
        "where token & 15 = 3",
        "hold := at >> 11;",
        "return now_us - 10000 > 0;",
        "if until_us - seen not between -3600000000 and 100000 then",
        "elsif age_ms not between 0 and 249 then",
        "and pg_relation_size(lane) > 2097152;",
        "select s from generate_series(0, 15) s order by (s + 16) % 16;",
        "perform pg_advisory_xact_lock(1885695603, 2);",
    ],
)
def test_a_magic_number_is_found(line: str) -> None:
    assert is_magic(line, in_engine=True)


def test_python_takes_only_advisory_locks_of_its_own() -> None:
    """A lock of the engine with another meaning would make unrelated sessions wait."""
    table = (SQL / "layout" / "lock.sql").read_text("utf-8")
    own, number = set(), ""
    for line in table.splitlines():
        if row := re.match(r"--   (\d{10})", line):
            number = row[1]
        if "(taken in Python)" in line:
            second = re.search(r" (\d) ", line)
            own.add((number, second[1] if second else ""))
    taken = {
        (number, second)
        for file in SQL.parent.rglob("*.py")
        for number, second in re.findall(r"\b(18856956\d\d), (\d?)", file.read_text("utf-8"))
    }
    assert taken == own
    assert len(own) == 2


def test_tests_take_the_bits_of_tokens_from_the_layout() -> None:
    bits = re.compile(r"(?:<<|>>) ?(?:5|11|17|2[0-2]|45|48)\b|& ?(?:15|16|31|2047|131070)\b")
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for folder in ("tests", "benchmarks")
        for file in (ROOT / folder).rglob("*.py")
        if file != Path(__file__)
        for line in file.read_text("utf-8").splitlines()
        if bits.search(line)
    ]
    assert found == []


def test_history_is_written_by_one_statement() -> None:
    """The layout has it. Every function that finishes messages uses that text."""
    for table, home in (
        ("history", "layout/row.sql"),
        ("attempt", "functions/settle/give_back.sql"),
    ):
        writes = re.compile(rf"insert\s+into\s+penstock\.{table}_log\b", re.I)
        found = [
            str(file.relative_to(SQL))
            for folder in SOURCES
            for file in (SQL / folder).rglob("*.sql")
            for _ in writes.finditer(file.read_text("utf-8"))
        ]
        assert found == [home]


def test_leases_are_returned_by_one_list_of_expressions() -> None:
    """Functions that return penstock.lease use {lease.row}, or what another function returned."""
    returning = {
        file: text
        for file in (SQL / "functions").rglob("*.sql")
        if "returns setof penstock.lease language" in (text := file.read_text("utf-8"))
    }
    assert len(returning) >= 4
    for file, text in returning.items():
        assert "{lease.row(" in text or re.search(r"\bm +penstock\.lease;", text), file


def test_lines_have_at_most_120_characters() -> None:
    for folder in SOURCES:
        for file in (SQL / folder).rglob("*.sql"):
            if "extension" not in file.parts:
                long = [line for line in file.read_text("utf-8").splitlines() if len(line) > 120]
                assert long == [], file


def test_every_function_file_begins_with_what_it_does() -> None:
    for file in (SQL / "functions").rglob("*.sql"):
        header = re.match(r"(?:-- ?.*\n)+", file.read_text("utf-8"))
        assert header, file
        assert re.search(r"\bLocks\b", header[0]), file
        assert re.search(r"\b(?:Uses?|[Ii]ndex(?:es)?|[Rr]eads|[Ss]cans)\b", header[0]), file
