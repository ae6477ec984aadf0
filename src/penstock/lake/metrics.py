"""The metrics of a run in the text format of Prometheus, for its textfile collector."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

from penstock.lake.layout import LAYERS
from penstock.lake.registry import Lag
from penstock.lake.run import RunTotals
from penstock.lake.run_steps import RunStep, StepTotals

LAG: Final = "Age of the newest data in a layer, 0 if it holds all that has finished."


def text(
    lake: str, totals: RunTotals, lag: Lag | None, steps: Mapping[str, StepTotals] | None = None
) -> str:
    """`lag` is None if the database does not respond."""
    counters = {
        "landed_rows_total": (totals.landed_rows, "Rows landed in bronze since the run began."),
        "landed_bytes_total": (totals.landed_bytes, "Bytes of the files that contain these rows."),
        "landed_files_total": (totals.landed_files, "Number of these files."),
        "repaired_files_total": (totals.repaired_files, "Damaged files that were repaired."),
        "lost_rows_total": (totals.lost_rows, "Rows that no repair could restore."),
        "batches_total": (totals.batches, "Batches landed since the run began."),
        "failures_total": (totals.failures, "Attempts of the run that failed and were repeated."),
        "quarantined_rows_total": (totals.quarantined_rows, "Rows that went into quarantine."),
    }
    lines: list[str] = []
    for name, (value, meaning) in counters.items():
        lines += _family(name, "counter", meaning, [({}, value)], lake)
    lines += _steps(steps or {}, lake)
    failed = [
        ({"queue": queue, "rule": rule}, rows)
        for queue, rules in totals.failed_rules.items()
        for rule, rows in rules.items()
    ]
    meaning = "Rows that broke a quality rule, or did not fit the model of their queue."
    lines += _family("failed_rule_rows_total", "counter", meaning, failed, lake)
    if lag is not None:
        meaning = "Rows of history not landed yet, counted up to 100,000."
        lines += _family("lag_rows", "gauge", meaning, [({}, lag.rows)], lake)
        layers = [({"layer": layer}, getattr(lag, layer)) for layer in LAYERS]
        lines += _family("lag_seconds", "gauge", LAG, layers, lake)
    return "\n".join(lines) + "\n"


def of_command(lake: str, work: RunStep) -> str:
    """The metrics of one command. Their names differ from those of a run, which has its own file.

    A collector refuses files that contain the same series.
    """
    gauges = {
        "command_succeeded": (
            int(work.error is None and work.passed),
            "1 if the last run of the command succeeded and found no problem.",
        ),
        "command_ended_at_seconds": (round(time.time(), 3), "When it ended, in Unix time."),
        "command_seconds": (round(work.seconds, 3), "Time that it took."),
        "command_rows": (work.rows, "Rows that it wrote, erased or compared."),
    }
    lines: list[str] = []
    for name, (value, meaning) in gauges.items():
        lines += _family(name, "gauge", meaning, [({"command": work.name}, value)], lake)
    return "\n".join(lines) + "\n"


def _steps(steps: Mapping[str, StepTotals], lake: str) -> Iterator[str]:
    """The number, failures, durations and rows of each kind of step."""
    outcomes = [
        ({"step": name, "outcome": outcome}, getattr(totals, outcome))
        for name, totals in steps.items()
        for outcome in ("done", "failed")
    ]
    seconds = [({"step": name}, round(totals.seconds, 3)) for name, totals in steps.items()]
    rows = [({"step": name}, totals.rows) for name, totals in steps.items()]
    yield from _family("steps_total", "counter", "Steps, by how they ended.", outcomes, lake)
    yield from _family("step_seconds_total", "counter", "Time that steps took.", seconds, lake)
    yield from _family("step_rows_total", "counter", "Rows that steps wrote.", rows, lake)


def _family(
    name: str,
    kind: str,
    meaning: str,
    values: Iterable[tuple[Mapping[str, str], float]],
    lake: str,
) -> Iterator[str]:
    """One metric, with a value for each set of labels."""
    full = f"penstock_lake_{name}"
    yield f"# HELP {full} {meaning}"
    yield f"# TYPE {full} {kind}"
    for labels, value in values:
        every = {"lake": lake, **labels}
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in every.items())
        yield f"{full}{{{inner}}} {value}"


def write(path: Path, content: str) -> None:
    """Replaces the file in one step, so that a collector never reads a part of it."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_text(content, "utf-8")
    os.replace(draft, path)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
