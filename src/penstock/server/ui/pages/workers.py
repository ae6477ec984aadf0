"""Workers: those that report, and other holders of leases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from penstock.model.monitoring import Heartbeat
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()


@pages("/workers")
async def workers(visit: Visit) -> View:
    snapshot = await visit.look("heartbeats", "leases")
    reporting = {beat.worker for beat in snapshot.heartbeats}
    # The snapshot lacks queues that the visitor may not read, but commands need all of them.
    whole = await visit.context.snapshots.look("heartbeats")
    served = {beat.worker: beat.queues for beat in (*snapshot.heartbeats, *whole.heartbeats)}
    held: dict[str | None, int] = {}
    for lease in snapshot.leases:
        held[lease.worker] = held.get(lease.worker, 0) + lease.leased
    data = {
        "at": snapshot.at,
        "workers": [
            _worker(visit, beat, served[beat.worker], held) for beat in snapshot.heartbeats
        ],
        "work": [row for beat in snapshot.heartbeats for row in _work(beat, snapshot.at)],
        # Other languages, psql, or a worker that has ended: they hold leases and do not report.
        "others": [lease for lease in snapshot.leases if lease.worker not in reporting],
        "alive": sum(beat.alive for beat in snapshot.heartbeats),
    }
    return View("workers.html", "Workers", data, live=True)


def _worker(
    visit: Visit, beat: Heartbeat, served: Iterable[str], held: dict[str | None, int]
) -> dict[str, Any]:
    operates = all(visit.may("operate", queue) for queue in served)
    reached = {"quiet": beat.state == "quiet", "stop": beat.state == "draining"}
    return {
        "beat": beat,
        "leased": held.get(beat.worker, 0),
        "commands": operates and beat.takes_commands and beat.state != "draining",
        # A command that the worker has not carried out yet.
        "awaited": None if beat.command is None or reached[beat.command] else beat.command,
    }


def _work(beat: Heartbeat, at: datetime) -> Iterator[dict[str, Any]]:
    """A row for each queue of a running worker."""
    # The runs continue after the worker's report.
    since = max(0.0, (at - beat.seen_at).total_seconds())
    for queue, work in beat.queues.items() if beat.alive else ():
        runs = [replace(run, seconds=run.seconds + since) for run in work.runs]
        yield {"worker": beat.worker, "queue": queue, "work": replace(work, runs=tuple(runs))}
