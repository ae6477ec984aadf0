"""Workers: those that report, and whoever else holds leases."""

from __future__ import annotations

from typing import Final

from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()


@pages("/workers")
async def workers(visit: Visit) -> View:
    snapshot = await visit.look("heartbeats", "leases")
    reporting = {beat.worker for beat in snapshot.heartbeats}
    held: dict[str | None, int] = {}
    for lease in snapshot.leases:
        held[lease.worker] = held.get(lease.worker, 0) + lease.leased
    data = {
        "at": snapshot.at,
        "workers": [
            {"beat": beat, "leased": held.get(beat.worker, 0)} for beat in snapshot.heartbeats
        ],
        # Other languages, psql, or a worker that is gone: they hold leases and do not report.
        "others": [lease for lease in snapshot.leases if lease.worker not in reporting],
        "alive": sum(beat.alive for beat in snapshot.heartbeats),
    }
    return View("workers.html", "Workers", data, live=True)
