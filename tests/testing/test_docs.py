"""docs/reference/testing.md is run, and says no less than there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import testing

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "testing.md"
TEXT = PAGE.read_text("utf-8")


def test_the_code_on_the_page_runs_from_top_to_bottom() -> None:
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


@pytest.mark.parametrize("name", testing.__all__)
def test_everything_offered_is_on_the_page(name: str) -> None:
    assert name in TEXT
    assert getattr(testing, name).__doc__
