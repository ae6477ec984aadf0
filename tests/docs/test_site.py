"""The hooks of the documentation site, tools/docs_site.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HOOKS = Path(__file__).parents[2] / "tools" / "docs_site.py"


@pytest.fixture(scope="module")
def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("docs_site", HOOKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_list_after_a_paragraph_gets_an_empty_line_before_it(hooks: Any) -> None:
    assert hooks.separate_lists("rules:\n- one\n  more\n- two\n\nend") == (
        "rules:\n\n- one\n  more\n- two\n\nend"
    )
    assert hooks.separate_lists("steps:\n1. one\n2. two") == "steps:\n\n1. one\n2. two"


@pytest.mark.parametrize("text", ["```\na:\n- b\n```", "- a\n- b", "# A\n\n- b", "a\n-b"])
def test_other_text_stays_as_it_is(hooks: Any, text: str) -> None:
    assert hooks.separate_lists(text) == text


@pytest.mark.parametrize(
    "element",
    [
        '<script src="https://cdn.example.com/a.js"></script>',
        '<link rel="stylesheet" href="//fonts.example.com/a.css">',
        '<img alt="" src="http://example.com/a.png">',
    ],
)
def test_a_page_that_loads_from_another_host_is_refused(hooks: Any, element: str) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    with pytest.raises(ValueError, match=r"index\.md loads from another host: <"):
        hooks.on_post_page(f"<p>{element}</p>", page)


def test_a_page_may_link_to_another_host(hooks: Any) -> None:
    text = (
        '<link rel="canonical" href="http://127.0.0.1:8008/index.html">'
        '<a href="https://example.com">x</a><script src="assets/a.js"></script>'
    )
    assert hooks.on_post_page(text, None) == text
