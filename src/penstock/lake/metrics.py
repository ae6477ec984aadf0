"""The run as metrics, in the text format of Prometheus, for its textfile collector."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from penstock.lake.registry import Lag
from penstock.lake.run import Tally


def text(lake: str, tally: Tally, lag: Lag | None) -> str:
    """`lag` is None while the database cannot be asked."""
    counters = {
        "landed_rows_total": (tally.landed_rows, "Rows landed in bronze since the run began."),
        "landed_bytes_total": (tally.landed_bytes, "Bytes of the files that they are in."),
        "landed_files_total": (tally.landed_files, "How many files those are."),
        "batches_total": (tally.batches, "Batches landed since the run began."),
        "failures_total": (tally.failures, "Turns that failed, and were tried again."),
    }
    gauges = {}
    if lag is not None:
        gauges = {
            "lag_rows": (lag.rows, "Rows of history not landed yet, counted up to 100,000."),
            "lag_seconds": (lag.seconds, "Age of the oldest of them."),
        }
    lines = []
    for kind, found in (("counter", counters), ("gauge", gauges)):
        for name, (value, meaning) in found.items():
            full = f"penstock_lake_{name}"
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
            lines.append(f'{full}{{lake="{_escaped(lake)}"}} {value}')
    return "\n".join(lines) + "\n"


def write(path: Path, content: str) -> None:
    """At once: a collector never finds half of it."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_text(content, "utf-8")
    os.replace(draft, path)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
