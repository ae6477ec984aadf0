"""docs/reference/python.md is run, and says no less than there is."""

import re
from pathlib import Path

import pytest

from penstock import Client
from penstock.errors import ERRORS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
TEXT = PAGE.read_text("utf-8")


def test_the_code_on_the_page_runs_from_top_to_bottom(dsn, monkeypatch):
    monkeypatch.setenv("PENSTOCK_DSN", dsn)
    names = {"DSN": dsn}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) > 5
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row.error.__name__)
def test_every_error_is_on_the_page_with_its_numbers(row):
    cells = [
        f"`{row.error.__name__}`",
        row.sqlstate or "",
        str(row.http_status),
        str(row.exit_code),
        "yes" if row.retryable else "",
    ]
    line = "| " + " | ".join(cells) + " |"
    assert line.replace("|  |", "| |") in TEXT


@pytest.mark.parametrize("method", [name for name in dir(Client) if not name.startswith("_")])
def test_every_method_is_on_the_page(method):
    assert re.search(rf"`{method}\b|, `{method}\b|\.{method}\(|`{method}\(", TEXT)
