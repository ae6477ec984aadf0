"""The run as metrics, in the text format of Prometheus, for its textfile collector."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

from penstock.lake.layout import LAYERS
from penstock.lake.registry import Lag
from penstock.lake.run import RunTotals

LAG: Final = "Age of the newest data in a layer, 0 if it holds all that has finished."


def text(lake: str, totals: RunTotals, lag: Lag | None) -> str:
    """`lag` is None while the database cannot be asked."""
    counters = {
        "landed_rows_total": (totals.landed_rows, "Rows landed in bronze since the run began."),
        "landed_bytes_total": (totals.landed_bytes, "Bytes of the files that they are in."),
        "landed_files_total": (totals.landed_files, "How many files those are."),
        "repaired_files_total": (totals.repaired_files, "Damaged files that were repaired."),
        "lost_rows_total": (totals.lost_rows, "Rows that no repair could restore."),
        "batches_total": (totals.batches, "Batches landed since the run began."),
        "failures_total": (totals.failures, "Turns that failed, and were tried again."),
    }
    lines: list[str] = []
    for name, (value, meaning) in counters.items():
        lines += _family(name, "counter", meaning, {"": value}, lake)
    if lag is not None:
        meaning = "Rows of history not landed yet, counted up to 100,000."
        lines += _family("lag_rows", "gauge", meaning, {"": lag.rows}, lake)
        layers = {layer: getattr(lag, layer) for layer in LAYERS}
        lines += _family("lag_seconds", "gauge", LAG, layers, lake)
    return "\n".join(lines) + "\n"


def _family(
    name: str, kind: str, meaning: str, values: Mapping[str, float], lake: str
) -> Iterator[str]:
    """One metric, with a value for each layer, or one value alone."""
    full = f"penstock_lake_{name}"
    yield f"# HELP {full} {meaning}"
    yield f"# TYPE {full} {kind}"
    for layer, value in values.items():
        of_layer = f',layer="{layer}"' if layer else ""
        yield f'{full}{{lake="{_escaped(lake)}"{of_layer}}} {value}'


def write(path: Path, content: str) -> None:
    """At once: a collector never finds half of it."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_text(content, "utf-8")
    os.replace(draft, path)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
