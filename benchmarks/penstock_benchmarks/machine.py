"""What the numbers were measured on: without it they say nothing."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psycopg

from penstock_benchmarks.statements import statement

_SETTINGS = [
    "autovacuum",
    "autovacuum_naptime",
    "autovacuum_vacuum_cost_delay",
    "autovacuum_vacuum_scale_factor",
    "checkpoint_timeout",
    "commit_delay",
    "data_checksums",
    "default_toast_compression",
    "effective_io_concurrency",
    "fsync",
    "full_page_writes",
    "io_method",
    "jit",
    "max_connections",
    "max_wal_size",
    "shared_buffers",
    "synchronous_commit",
    "synchronous_standby_names",
    "wal_buffers",
    "wal_compression",
    "wal_level",
    "wal_sync_method",
]


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "system": platform.platform(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def versions(packages: Sequence[str] = ()) -> dict[str, str]:
    """Of everything that takes part, and of these packages."""
    return {
        "penstock": metadata.version("penstock"),
        "python": platform.python_version(),
        "psycopg": psycopg.__version__,
        "libpq": str(psycopg.pq.version()),
        "psycopg_implementation": psycopg.pq.__impl__,
        **{package: metadata.version(package) for package in packages},
    }


def server(connection: psycopg.Connection[tuple[Any, ...]]) -> dict[str, Any]:
    row = connection.execute(statement("server")).fetchone()
    assert row is not None
    settings = connection.execute(statement("settings"), {"names": _SETTINGS}).fetchall()
    return {"version": row[0], "database": row[1], "user": row[2], "settings": dict(settings)}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
