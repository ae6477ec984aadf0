"""docs/explanation/architecture.md names files that exist, and CONTRIBUTING and README do too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
TOP = {path.name for path in ROOT.iterdir()}


def named_paths(text: str) -> set[str]:
    """Paths of the repository between backticks. One with NNNN or <...> stands for many files."""
    words = re.findall(r"`([\w./-]+)`", text)
    return {
        word for word in words if "/" in word and "NNNN" not in word and word.split("/")[0] in TOP
    }


def test_every_path_on_the_architecture_page_exists() -> None:
    paths = named_paths(PAGE.read_text("utf-8"))
    assert len(paths) > 60
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_no_walk_visits_a_file_twice() -> None:
    walks = re.findall(r"^## The walk of .*?(?=^## )", PAGE.read_text("utf-8"), re.M | re.S)
    assert len(walks) == 3
    for walk in walks:
        steps = re.findall(r"^\d+\. `([^`]+)`", walk, re.M)
        assert len(steps) > 10
        assert len(steps) == len(set(steps))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_local_links_outside_the_site_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text("utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_path_in_contributing_exists() -> None:
    paths = named_paths((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert paths
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_contributing_says_what_each_lock_file_is_for() -> None:
    locks = [f"requirements/{path.name}" for path in (ROOT / "requirements").iterdir()]
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert sorted(re.findall(r"^\| `(requirements/[\w.-]+)` \|", text, re.M)) == sorted(locks)
