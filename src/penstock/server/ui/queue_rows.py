"""The rows of the table of queues: counts, rates and findings of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.server.monitoring.snapshots import Snapshot
from penstock.server.ui.findings import Finding


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One row. Rates are per minute, or None if the queue keeps no history."""

    name: str
    paused: bool
    ready: int
    scheduled: int
    leased: int
    dead: int
    oldest_ready_seconds: float | None
    estimated: bool
    done_per_minute: float | None
    failed_per_minute: float | None
    trouble: str | None
    trend: list[int]


def queue_rows(snapshot: Snapshot, findings: list[Finding]) -> list[QueueRow]:
    """Every queue of the snapshot, by name."""
    done = _rates((p.queue, p.count, p.seconds) for p in snapshot.finished if p.state == "done")
    failed = _rates((p.queue, p.count, p.seconds) for p in snapshot.failed)
    settings = {queue.name: queue.settings for queue in snapshot.queues}
    trouble: dict[str, str] = {}
    for finding in findings:  # the worst first
        if finding.queue is not None and not finding.is_muted:
            trouble.setdefault(finding.queue, finding.severity)
    minutes = sorted(snapshot.depths.get("", ()))
    lines = []
    for stats in snapshot.stats:
        chosen = settings.get(stats.queue)
        keeps = chosen is None or chosen.keep_history > 0
        lines.append(
            QueueRow(
                stats.queue,
                chosen is not None and chosen.paused,
                stats.ready,
                stats.scheduled,
                stats.leased,
                stats.dead,
                stats.oldest_ready_seconds,
                stats.estimated,
                done.get(stats.queue, 0.0) if keeps else None,
                failed.get(stats.queue, 0.0) if keeps else None,
                trouble.get(stats.queue),
                [snapshot.depths.get(stats.queue, {}).get(at, 0) for at in minutes],
            )
        )
    return lines


def _rates(paces: Iterable[tuple[str, int, float]]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for queue, count, seconds in paces:
        rates[queue] = rates.get(queue, 0) + count * 60 / max(seconds, 1)
    return {queue: round(rate, 1) for queue, rate in rates.items()}
