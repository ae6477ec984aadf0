"""Fetch a suite and run it: python -m tests.django_suites rq"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from penstock.db.embedded import EmbeddedPostgres

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def fetch(package: str, place: Path) -> Path:
    """The unpacked source distribution of a package."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    # The tests run on older versions of Python than their package.
    command += ["--no-deps", "--ignore-requires-python", "--no-binary", ":all:"]
    subprocess.run([*command, "--dest", str(place), package], check=True)
    [archive] = place.glob("*.tar.gz")
    # Not tarfile, whose filters came in 3.11.4, and which warns without them from 3.12 on.
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(place)], check=True)
    [directory] = [each for each in place.iterdir() if each.is_dir()]
    return directory


def run(name: str) -> bool:
    from django.test.runner import DiscoverRunner
    from tests.django_suites.suites import SUITES

    suite = SUITES[name]
    print(f"== {suite.package}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        cases = suite.adapted(fetch(suite.package, Path(place)))
        runner = DiscoverRunner(interactive=False, verbosity=0)
        runner.setup_test_environment()
        databases = runner.setup_databases()
        try:
            tests = unittest.defaultTestLoader.loadTestsFromTestCase(cases)
            result = unittest.TextTestRunner(verbosity=2).run(tests)
        finally:
            runner.teardown_databases(databases)
            runner.teardown_test_environment()
    print(
        f"{result.testsRun - len(result.skipped)} tests of {suite.package} ran, "
        f"{len(result.failures) + len(result.errors)} failed, "
        f"{len(result.skipped)} do not apply",
        flush=True,
    )
    return result.wasSuccessful()


def main(name: str) -> int:
    with (
        tempfile.TemporaryDirectory() as home,
        EmbeddedPostgres.start(Path(home), settings=FAST) as server,
    ):
        os.environ["DATABASE_URL"] = server.dsn
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django_suites.settings"
        import django

        django.setup()
        return 0 if run(name) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
