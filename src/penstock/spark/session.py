"""A Spark session for our own commands: with defaults for a laptop, otherwise as configured.

The master is never set here. `spark-submit`, `spark.master` in spark-defaults.conf and SPARK_REMOTE
decide. Without them, Spark runs in this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError
from penstock.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING = 'Install it with: pip install "penstock[spark]"'


def spark_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The running session, or a new one. `settings` are those of Spark, and take precedence."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise ConfigurationError("Spark is not installed", hint=MISSING) from error
    if os.environ.get("SPARK_REMOTE"):
        return SparkSession.builder.appName(name).getOrCreate()
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is None:
        use_java()
        if not _is_set_up():
            # The default is the `python3` on the path, which may lack Penstock.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = dict(settings or {})
    configured = SparkConf()
    builder = SparkSession.builder.appName(name)
    for key, value in (local_settings() | chosen).items():
        if key in chosen or not configured.contains(key):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def local_settings() -> dict[str, str]:
    """Settings for a local process. Empty if Spark is configured already."""
    shared = {
        "spark.sql.python.filterPushdown.enabled": "true",  # option pushdown needs it
        "spark.sql.session.timeZone": "UTC",
    }
    if _is_set_up():
        return shared
    return shared | {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _is_set_up() -> bool:
    """Whether `spark-submit` runs this process, or a spark-defaults.conf exists."""
    return bool(os.environ.get("PYSPARK_GATEWAY_PORT") or os.environ.get("SPARK_CONF_DIR"))
