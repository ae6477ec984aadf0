"""Run some tests with the lowest and the highest supported psycopg and uvicorn.

    python tools/test_versions.py                                # both ends
    python tools/test_versions.py lowest --tests tests/server    # one end, and other tests

Penstock uses internals of both, so pyproject.toml has lower and upper bounds for them. Each end
gets a small environment with these packages alone. Everything else comes from the environment that
runs this program.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parent.parent
ENDS: Final = ("lowest", "highest")
PACKAGES: Final = ("psycopg", "psycopg-pool", "uvicorn")
TESTS: Final = (
    "tests/test_fast_execute.py",
    "tests/client/test_batching.py",
    "tests/worker/test_listener.py",
    "tests/server/test_begun_requests.py",
    "tests/server/test_gone_callers.py",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "end", nargs="?", choices=ENDS, help="test these versions only (default: both)"
    )
    parser.add_argument(
        "--tests", nargs="+", default=TESTS, help="the files that pytest runs (default: a few)"
    )
    chosen = parser.parse_args()
    ends = ENDS if chosen.end is None else (chosen.end,)
    failed = [end for end in ends if not passes(end, chosen.tests)]
    if failed:
        print(f"failed with the {' and the '.join(failed)} supported versions")
    return 1 if failed else 0


def passes(end: str, tests: Sequence[str]) -> bool:
    python = make_environment(end)
    shown = "import psycopg, uvicorn; print('psycopg', psycopg.__version__, end=', '); "
    shown += "print('uvicorn', uvicorn.__version__)"
    subprocess.run([python, "-c", shown], check=True)
    command = [python, "-m", "pytest", "-q", "-n", "2", "-m", "not slow", *tests]
    return subprocess.run(command, cwd=ROOT).returncode == 0


def make_environment(end: str) -> Path:
    """A virtual environment that has the packages of one end before those of this one."""
    place = Path(sys.prefix) / "versions" / end
    venv.create(place, with_pip=False, clear=True)
    variables = {"base": str(place), "platbase": str(place)}
    packages = Path(sysconfig.get_path("purelib", vars=variables))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--target", str(packages), *pins(end)], check=True)
    # Later entries: what was just installed comes first.
    found = [sysconfig.get_path("purelib"), str(ROOT / "src"), str(ROOT / "benchmarks")]
    (packages / "base.pth").write_text("\n".join(found) + "\n", "utf-8")
    return place / ("Scripts" if os.name == "nt" else "bin") / "python"


def pins(end: str) -> Iterator[str]:
    """What to install: `psycopg==3.2.2`, or `psycopg>=3.2.2,<3.4` for the newest of these."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    texts = project["dependencies"] + project["optional-dependencies"]["server"]
    for requirement in map(Requirement, texts):
        if requirement.name not in PACKAGES:
            continue
        bounds = {each.operator: each.version for each in requirement.specifier}
        pin = f"=={bounds['>=']}" if end == "lowest" else f">={bounds['>=']},<{bounds['<']}"
        yield f"{requirement.name}{pin}"
        for extra in requirement.extras:
            yield f"{requirement.name}-{extra}{pin}"


if __name__ == "__main__":
    sys.exit(main())
