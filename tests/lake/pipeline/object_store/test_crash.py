"""kill -9 while a lake on S3 is filled. The S3 itself stays up, as a separate service would."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.lake.pipeline.object_store.conftest import Bucket
from tests.lake.pipeline.test_crash import Stage, crash, place  # noqa: F401

KINDS = ("driver", "executor", "postgres", "everything")


@pytest.mark.timeout(3600)
def test_a_lake_on_s3_has_everything_once_after_five_crashes(
    place: Path,  # noqa: F811
    bucket: Bucket,
    root: str,
) -> None:
    rounds = int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "5"))
    messages = int(os.environ.get("PENSTOCK_CRASH_MESSAGES", "20000"))
    pause = float(os.environ.get("PENSTOCK_CRASH_PAUSE", "0.2"))
    batch = int(os.environ.get("PENSTOCK_CRASH_BATCH", "100"))
    settings = {"spark.master": "local[1]", "spark.driver.memory": "1g", **bucket.settings()}
    conf = [f"{name}={value}" for name, value in settings.items()]
    stage = Stage(place, conf, batch, pause, root=root, options=bucket.delta_options())
    crash(stage, [KINDS[number % len(KINDS)] for number in range(rounds)], messages=messages)
