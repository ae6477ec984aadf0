"""Where the output of Spark's JVM goes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from penstock.cli.lake_setup import _stderr_in_a_file


def test_the_output_of_the_jvm_goes_to_a_new_file_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    victim = tmp_path / "victim"
    planted = tmp_path / f"penstock-spark-{os.getpid()}.log"
    planted.symlink_to(victim)
    for text in (b"one", b"two"):
        with _stderr_in_a_file():
            os.write(2, text)
    assert not victim.exists()
    logs = [file for file in tmp_path.iterdir() if file != planted]
    assert sorted(file.read_bytes() for file in logs) == [b"one", b"two"]
    assert {file.stat().st_mode & 0o777 for file in logs} == {0o600}
