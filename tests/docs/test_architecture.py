"""docs/explanation/architecture.md names files that exist, and CONTRIBUTING and README do too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
TOP = {path.name for path in ROOT.iterdir()}
SUFFIXES = {".py", ".sql", ".html", ".js"}


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


def test_every_package_is_among_the_parts() -> None:
    [parts] = re.findall(r"^## The parts\n.*?(?=^## )", PAGE.read_text("utf-8"), re.M | re.S)
    packages = {path.parent.name for path in (ROOT / "src" / "penstock").glob("*/__init__.py")}
    assert len(packages) > 15
    assert sorted(name for name in packages if f"`src/penstock/{name}`" not in parts) == []


@pytest.mark.parametrize("of", ["a message", "an HTTP request", "a page"])
def test_a_walk_names_files_only_and_none_twice(of: str) -> None:
    [walk] = re.findall(rf"^## The walk of {of}\n.*?(?=^## )", PAGE.read_text("utf-8"), re.M | re.S)
    steps = re.findall(r"^\d+\. `([^`]+)`", walk, re.M)
    assert len(steps) > 10
    # In all of its text, also where a file is named without its folder.
    words = re.findall(r"`([\w./-]+)`", walk)
    named = [word for word in words if word.split("/")[0] in TOP or Path(word).suffix in SUFFIXES]
    assert [word for word in named if not (ROOT / word).is_file()] == []
    assert sorted(named) == sorted(set(steps))


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
