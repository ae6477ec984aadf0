"""The overview: findings, totals, and charts."""

from __future__ import annotations

from typing import Any, Final

from penstock.server.monitoring.snapshots import Snapshot
from penstock.server.ui.diagnosis import diagnose
from penstock.server.ui.findings import grouped
from penstock.server.ui.queue_charts import read_charts
from penstock.server.ui.queue_rows import QueueRow, queue_rows
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
SHOWN: Final = 12
_RANK: Final = {"critical": 0, "warning": 1, "note": 2, None: 3}


@pages("/")
async def overview(visit: Visit) -> View:
    snapshot = await visit.look()
    findings = diagnose(snapshot)
    lines = queue_rows(snapshot, findings)
    ranked = sorted(lines, key=lambda line: (_RANK[line.trouble], -line.ready, line.name))
    data = {
        "at": snapshot.at,
        "findings": grouped([each for each in findings if not each.is_muted]),
        "muted": grouped([each for each in findings if each.is_muted]),
        "totals": totals(snapshot, lines),
        "queues": ranked[:SHOWN],
        "queues_count": len(lines),
        "lakes": snapshot.lakes,
        "charts": await read_charts(visit, None, totals(snapshot, lines))
        if visit.principal.unlimited("read")
        else None,
    }
    return View("overview.html", "Overview", data, live=True)


def totals(snapshot: Snapshot, lines: list[QueueRow]) -> dict[str, Any]:
    oldest = max(
        (line for line in lines if line.oldest_ready_seconds is not None and not line.paused),
        key=lambda line: line.oldest_ready_seconds or 0,
        default=None,
    )
    return {
        "oldest_ready_seconds": None if oldest is None else oldest.oldest_ready_seconds,
        "oldest_queue": None if oldest is None else oldest.name,
        "only_paused": any(line.ready for line in lines)
        and all(line.paused for line in lines if line.ready),
        "ready": sum(line.ready for line in lines),
        "scheduled": sum(line.scheduled for line in lines),
        "leased": sum(line.leased for line in lines),
        "dead": sum(line.dead for line in lines),
        "estimated": any(line.estimated for line in lines),
        "done_per_minute": round(sum(line.done_per_minute or 0 for line in lines), 1),
        "failed_per_minute": round(sum(line.failed_per_minute or 0 for line in lines), 1),
        "workers": sum(beat.alive for beat in snapshot.heartbeats),
        "silent_workers": sum(not beat.alive for beat in snapshot.heartbeats),
    }
