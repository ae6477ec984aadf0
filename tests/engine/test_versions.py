"""The engine is plain SQL for PostgreSQL 15 to 18: a walk through it on every installed version.

The whole of the suites runs on another version with `PENSTOCK_TEST_PG=16 pytest tests/engine
tests/contract`; the slow test here does that for all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.embedded.binaries import wheel_bin_directory
from penstock.db.migrations import Migrator

ROOT = Path(__file__).parents[2]
TESTED = os.environ.get("PENSTOCK_TEST_PG", "18")
VERSIONS = [version for version in ("15", "16", "18") if version != TESTED]
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def programs(version: str) -> Path:
    for place in (Path(f"/usr/lib/postgresql/{version}/bin"), wheel_bin_directory(int(version))):
        if (place / "initdb").exists():
            return place
    pytest.skip(
        f"PostgreSQL {version} is not installed. As root: apt-get install postgresql-{version}"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_every_verb_works_on_every_version(version: str, home: Path, caller: Any) -> None:
    with EmbeddedPostgres.start(home, bin_dir=programs(version), settings=FAST) as server:
        engine = caller(server.dsn)
        try:
            Migrator(engine.connection).up()
            assert engine.connection.info.server_version // 10000 == int(version)
            engine.create("work", '{"max_attempts": 1, "keep_history": 7}')
            walk(engine)
        finally:
            engine.connection.close()


def walk(engine: Any) -> None:
    body = '"' + "x" * 3000 + '"'
    sent = {engine.enqueue("work"), engine.enqueue("work", body, key="k", priority=2)}
    sent |= {engine.enqueue("work", group_key="g", ttl="1 hour"), *engine.enqueue_many("work", 10)}
    sent.add(engine.enqueue("work", delay="10 milliseconds"))
    engine.drain("work", sent)
    engine.enqueue_many("work", 3)
    (extended, extended_token), snoozed, rejected = engine.claim("work", 3)
    assert engine.value("select penstock.extend(%s, %s, 60)", extended, extended_token)
    assert engine.value("select penstock.snooze(%s, %s)", *snoozed) == "ready"
    assert engine.value("select penstock.reject(%s, %s)", *rejected) == "dead"
    assert engine.value("select penstock.nack(%s, %s)", extended, extended_token) == "dead"
    assert engine.value("select penstock.redrive('work', dry_run => true)") == 2
    assert engine.value("select penstock.redrive('work')") == 2
    assert engine.value("select penstock.cancel(%s)", snoozed[0]) == "ready"
    copy = engine.value("select penstock.replay(%s)", snoozed[0])
    engine.rotate()
    engine.tend()
    assert engine.value("select ready from penstock.stats('work')") == 3
    engine.drain("work", {copy, extended, rejected[0]})
    assert engine.value("select count(*) from penstock.history where state = 'done'") >= 17
    assert engine.value("select count(*) from penstock.messages") == 0
    assert engine.value("select penstock.drop_queue('work')") == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_suites_pass_on_every_version(version: str) -> None:
    programs(version)
    suites = [str(ROOT / "tests" / suite) for suite in ("engine", "contract")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-m", "not slow", "-q", *suites],
        env={**os.environ, "PENSTOCK_TEST_PG": version},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
