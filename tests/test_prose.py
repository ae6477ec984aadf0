"""tools/check_prose.py finds the forms of its rules in documents, comments and messages."""

from __future__ import annotations

import fnmatch
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "check_prose.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_prose", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_prose"] = module
    spec.loader.exec_module(module)
    return module


prose = _load()


def _places(path: str, text: str) -> list[tuple[int, int, str]]:
    return [(found.line, found.column, found.form) for found in prose.check_text(path, text)]


@pytest.mark.parametrize("rule", prose.RULES, ids=lambda rule: rule.example)
def test_each_rule_finds_its_example_and_leaves_the_near_miss_alone(rule):
    found = prose.check_text("page.md", rule.example)
    assert rule.instead in [finding.instead for finding in found]
    assert rule.instead not in [
        finding.instead for finding in prose.check_text("page.md", rule.near_miss)
    ]


def test_a_finding_names_place_form_and_what_to_write():
    [found] = prose.check_text("docs/page.md", "First line.\n\nIt is read anew.")
    assert str(found) == "docs/page.md:3:12: 'anew' (archaic); write: again, or a new ..."


def test_a_form_that_is_broken_over_two_lines_is_found():
    assert _places("page.md", "It has a table of its\nown.") == [(1, 16, "of its own")]


def test_separate_paragraphs_are_not_joined():
    assert _places("page.md", "a table of its\n\nown") == []


def test_code_in_documents_is_not_prose():
    assert _places("page.md", "Call `ticket()`.\n\n```\nanew\n```\n\n[a link](ticket.md)") == []


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("x = 1  # read anew\n", (1, 15)),
        ('def f():\n    """Read\n    it anew."""\n', (3, 8)),
        ('raise ValueError(f"read {x} anew")\n', (1, 29)),
    ],
)
def test_comments_docstrings_and_messages_of_python_are_read(source, place):
    assert [found[:2] for found in _places("module.py", source)] == [place]


def test_names_in_python_are_not_prose():
    assert _places("module.py", "anew = ticket()\n") == []


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("-- Read\n-- it anew.\nSELECT 1;\n", (2, 7)),
        ("RAISE EXCEPTION USING message = format('read %s anew', x);\n", (1, 49)),
        ("RAISE EXCEPTION USING hint =\n  'read it anew';\n", (2, 12)),
        ("perform penstock._fail('PS001', 'read it anew', hint => '');\n", (1, 42)),
        ("select 1; -- it's\nselect 'read '' anew';\n", (2, 17)),
    ],
)
def test_comments_and_messages_of_sql_are_read(source, place):
    assert [found[:2] for found in _places("function.sql", source)] == [place]


def test_names_and_other_literals_of_sql_are_not_prose():
    assert (
        _places(
            "function.sql", "SELECT ticket FROM anew WHERE a = '-- anew';\n--: define anew as 1\n"
        )
        == []
    )


def test_text_and_labels_of_pages_are_read_and_their_markup_is_not():
    page = (
        '<p class="ticket" title="read anew">{% if ticket %}read {{ ticket }}\nanew{% endif %}</p>'
    )
    assert _places("page.html", page) == [(1, 31, "anew"), (2, 1, "anew")]


@pytest.mark.parametrize(
    ("path", "source", "places"),
    [
        ("app.js", "const s = 'read // anew'; // read anew\n", [(1, 35)]),
        ("client.ts", "/** Read\n * it\n * anew. `anew` */\n", [(3, 4)]),
        ("client.ts", "const s = `\n// anew\n`; // a table of its\n// own\n", [(3, 15)]),
        ("site.css", "/* read anew */ .ticket { }\n", [(1, 9)]),
        ("pyproject.toml", 'x = "# anew"  # read anew\n', [(1, 22)]),
        ("Makefile", "anew: ## read\n# it anew\n\techo anew\n", [(2, 6)]),
        ("deploy/worker.Dockerfile", "RUN anew\n# read anew\n", [(2, 8)]),
    ],
)
def test_comments_of_other_languages_are_read_and_their_code_is_not(path, source, places):
    assert [found[:2] for found in _places(path, source)] == places


def test_comments_and_values_of_yaml_are_read():
    source = "# read\n# it anew\nsummary: '{{ anew }} is gone'\n"
    assert _places("rules.yml", source) == [(2, 6, "anew"), (3, 22, "is gone")]


def test_one_word_is_data_in_tests_and_a_label_elsewhere():
    assert _places("tests/test_it.py", 'key = "ticket"  # read anew\n') == [(1, 24, "anew")]
    assert _places("src/penstock/it.py", 'label = "ticket"\n') == [(1, 10, "ticket")]


def test_a_sentence_with_two_colons_is_found():
    assert _places("page.md", "One: two; three. Four: five.") == [(1, 9, ";")]


def test_colons_in_two_cells_of_a_table_are_two_sentences():
    assert _places("page.md", "| a: b | c: d at 10:30:15 |") == []


def test_an_allowed_form_needs_a_reason():
    assert _places("page.md", "a ticket <!-- prose: allow ticket, because Jira has them -->") == []
    assert [found[2] for found in _places("page.md", "a ticket <!-- prose: allow ticket -->")] == [
        "ticket",
        "ticket",
    ]


def test_every_covered_file_is_clean():
    run = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_finding_makes_the_check_fail(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("It is read anew.")
    run = subprocess.run([sys.executable, TOOL, page], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "'anew'" in run.stdout


def test_a_path_that_cannot_be_checked_is_a_usage_error(tmp_path):
    run = subprocess.run(
        [sys.executable, TOOL, tmp_path], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "not a file that ends in" in run.stderr


def test_every_entry_of_files_that_are_not_covered_names_a_file():
    names = prose.files()
    assert [where for where in prose.NOT_COVERED if not fnmatch.filter(names, where)] == []
