"""examples/dagster, run by a real Dagster in its own environment: `make test-dagster`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client.sync_client import Client

ENVIRONMENT = os.environ.get("PENSTOCK_TEST_DAGSTER")
EXAMPLE = Path(__file__).parents[2] / "examples" / "dagster"

pytestmark = [
    pytest.mark.skipif(ENVIRONMENT is None, reason="needs Dagster: run `make test-dagster`"),
    pytest.mark.timeout(600),
]

RUN = """
import dagster as dg
from definitions import defs

result = dg.materialize([defs.get_assets_def("lake"), *defs.asset_checks], raise_on_error=False)
for event in result.get_asset_materialization_events():
    print({name: value.value for name, value in event.materialization.metadata.items()})
for check in result.get_asset_check_evaluations():
    print("passed", check.passed)
raise SystemExit(0 if result.success else 1)
"""


def test_the_lake_is_an_asset_with_a_check(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client:
        client.create_queue("orders")
        client.enqueue_many("orders", [{"n": 1}] * 3)
        client.ack_many(client.claim("orders", 10))
    environment = {
        **os.environ,
        "PENSTOCK_DSN": dsn,
        "PENSTOCK_LAKE": str(tmp_path / "lake"),
        "PENSTOCK_COMMAND": str(Path(sys.executable).with_name("penstock")),
    }
    environment.pop("DAGSTER_HOME", None)
    done = subprocess.run(
        [f"{ENVIRONMENT}/bin/python", "-c", RUN],
        capture_output=True,
        text=True,
        check=False,
        cwd=EXAMPLE,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'landed_rows': 3, 'silver_rows': 3" in done.stdout
    assert "passed True" in done.stdout
