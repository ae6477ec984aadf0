"""The database: the horizon and the sessions that pin it, the ring, history, settings."""

from __future__ import annotations

from typing import Any, Final

from penstock.commands import read
from penstock.server.ui.diagnosis import PINNED_SECONDS, PINNED_XIDS, holder_name
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()


@pages("/system")
async def system(visit: Visit) -> View:
    holders = await visit.run(read.horizon())
    server = await visit.run(read.server())
    storage = await visit.run(read.storage())
    data: dict[str, Any] = {
        "server": server,
        "schema_version": await visit.run(read.schema_version()),
        "known_schema_version": read.known_schema_version(),
        "holders": [
            {
                "holder": each,
                "name": holder_name(each),
                "remedy": each.remedy,
                "can_end": visit.principal.is_admin and each.kind == "session" and not each.is_ours,
                "long": (each.age_seconds or 0) >= PINNED_SECONDS or each.xids >= PINNED_XIDS,
            }
            for each in holders
        ],
        "storage": storage,
        "totals": _totals(storage),
    }
    return View("system.html", "System", data)


def _totals(storage: dict[str, Any]) -> dict[str, Any]:
    segments, history = storage["segments"], storage["history"] or []
    parts = ("ready_bytes", "leased_bytes", "body_bytes")
    return {
        "segments_bytes": sum(segment[part] for segment in segments for part in parts),
        "segments_dead_rows": sum(segment["dead_rows"] for segment in segments),
        "segments_used": sum(
            segment["state"] not in ("free", "overflow, empty") for segment in segments
        ),
        "history_bytes": sum(slot["history_bytes"] + slot["attempts_bytes"] for slot in history),
        "history_rows": sum(slot["history_rows"] for slot in history),
    }
