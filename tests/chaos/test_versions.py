"""The version that schema_upgraded starts from is another one than the version under test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from . import versions
from .__main__ import main


@pytest.fixture
def no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "ROOT", tmp_path)


def test_the_long_form_does_not_upgrade_a_version_to_itself(
    no_history: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["chaos", "--direct", "--scenario", "schema_upgraded"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr("tests.chaos.__main__.faketime_library", lambda: Path("/"))
    with pytest.raises(SystemExit, match=r"no previous version: .* Name a commit with --from"):
        main()


def test_an_unknown_revision_is_an_error(no_history: None) -> None:
    with pytest.raises(SystemExit, match="--from v0: git has no such revision"):
        versions.commit_of("v0")
