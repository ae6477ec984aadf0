"""Which findings are new, worse or over, compared with those that were announced. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from penstock.model.monitoring import Announcement
from penstock.server.notifications.settings import SEVERITIES
from penstock.server.ui.findings import Finding

# A finding that disappears and returns within this time counts as uninterrupted.
RECOVERY: Final = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Changes:
    """The announcement, and the state to store after it was sent."""

    new: list[Finding]
    recovered: list[Announcement]
    # To be stored even if there is nothing to announce.
    kept: list[Announcement]

    @property
    def worth_a_message(self) -> bool:
        return bool(self.new or self.recovered)

    def after(self, now: datetime) -> list[Announcement]:
        """All open announcements once the message has been sent."""
        replaced = {finding.identity for finding in self.new}
        since = {each.finding: each.since for each in self.kept}
        return [each for each in self.kept if each.finding not in replaced] + [
            Announcement(
                each.identity,
                each.kind,
                each.severity,
                each.title,
                since.get(each.identity, now),
                None,
            )
            for each in self.new
        ]


def compare(
    findings: Sequence[Finding], announced: Sequence[Announcement], now: datetime
) -> Changes:
    """Compare the current findings with the announced ones."""
    present = {finding.identity: finding for finding in findings}
    before = {each.finding: each for each in announced}
    new = [
        finding
        for identity, finding in present.items()
        if identity not in before or _is_worse(finding, before[identity])
    ]
    recovered: list[Announcement] = []
    kept: list[Announcement] = []
    for each in announced:
        if each.finding in present:
            kept.append(each.missing(None))
        elif each.missing_since is not None and now - each.missing_since >= RECOVERY:
            recovered.append(each)
        else:
            kept.append(each.missing(each.missing_since or now))
    return Changes(new, recovered, kept)


def _is_worse(finding: Finding, announced: Announcement) -> bool:
    return SEVERITIES.index(finding.severity) < SEVERITIES.index(announced.severity)
