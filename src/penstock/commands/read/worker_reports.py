"""Reads what workers report of their queues.

Every database user that may claim may report, so a report can contain anything. A value of the
wrong type counts as missing.
"""

from __future__ import annotations

from typing import Any

from penstock.model.monitoring import CurrentRun, QueueWork


def queues_of(report: Any) -> dict[str, QueueWork]:
    """The work of a worker by queue."""
    if not isinstance(report, dict):
        return {}
    return {queue: _work(each) for queue, each in report.items() if isinstance(each, dict)}


def _work(report: dict[str, Any]) -> QueueWork:
    runs = report.get("runs")
    return QueueWork(
        running=_whole(report, "running") or 0,
        concurrency=_whole(report, "concurrency"),
        done=_whole(report, "done") or 0,
        failed=_whole(report, "failed") or 0,
        done_per_minute=_number(report, "done_per_minute") or 0,
        failed_per_minute=_number(report, "failed_per_minute") or 0,
        p50_seconds=_number(report, "p50_seconds"),
        p95_seconds=_number(report, "p95_seconds"),
        runs=tuple(map(_run, filter(_is_run, runs if isinstance(runs, list) else ()))),
    )


def _is_run(run: Any) -> bool:
    id = run.get("id") if isinstance(run, dict) else None
    return isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 20


def _run(run: dict[str, Any]) -> CurrentRun:
    return CurrentRun(run["id"], _whole(run, "attempt") or 1, _number(run, "seconds") or 0.0)


def _number(report: dict[str, Any], name: str) -> float | None:
    value = report.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if 0 <= value < 1e12 else None


def _whole(report: dict[str, Any], name: str) -> int | None:
    value = _number(report, name)
    return None if value is None else int(value)
