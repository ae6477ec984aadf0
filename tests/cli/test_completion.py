"""`penstock completion`: what the shell offers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Ask = Callable[..., Any]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_new_bash_completes_commands_and_options(
    ask: Ask, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    (home / ".bashrc").write_text("export KEPT=yes")
    done = ask("completion", "install")
    assert ask("completion", "install") == done
    lines = (home / ".bashrc").read_text("utf-8").splitlines()
    assert (len(lines), lines[0]) == (2, "export KEPT=yes")
    asked = """
        . ~/.bashrc
        COMP_WORDS=(penstock que); COMP_CWORD=1; _penstock_completion penstock
        echo "${COMPREPLY[@]}"; COMPREPLY=()
        COMP_WORDS=(penstock key create --sc); COMP_CWORD=3; _penstock_completion penstock
        echo "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = subprocess.run(
        ["bash", "--norc", "-c", asked],
        env={"HOME": str(home), "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["queue", "--scope"]


def test_zsh_and_fish_get_their_files(ask: Ask, home: Path) -> None:
    zsh = ask("completion", "install", "zsh")
    assert zsh["profile"] == str(home / ".zshrc")
    assert zsh["file"] in (home / ".zshrc").read_text("utf-8")
    fish = ask("completion", "install", "fish")
    assert fish["file"] == str(home / ".config/fish/completions/penstock.fish")
    assert fish["profile"] is None
    for document in (zsh, fish):
        script = Path(document["file"]).read_text("utf-8")
        assert ask("completion", "show", document["shell"])["script"] == script


def test_an_unknown_shell_is_refused_with_the_way_out(
    cli: Callable[..., Any], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/csh")
    answer = cli("completion", "install")
    assert answer.code != 0
    assert "penstock completion install bash" in answer.err
    assert list(home.iterdir()) == []
