"""`penstock bench` where the benchmarks are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_it_says_how_to_install_the_benchmarks() -> None:
    """In a Python that finds everything but them, as after `pip install penstock`."""
    program = """
import sys
sys.path = [each for each in sys.path if not each.endswith("benchmarks")]
from penstock.cli import main
main(["bench", "engine", "--seconds", "1"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install ./benchmarks" in done.stderr
    assert "Traceback" not in done.stderr


def test_they_have_a_package_of_their_own_outside_the_wheel() -> None:
    root = Path(__file__).parents[2]
    assert (root / "benchmarks" / "pyproject.toml").is_file()
    assert not list((root / "src").rglob("*bench*/"))
