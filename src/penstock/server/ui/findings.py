"""A finding: one problem of the queues, with a link and the next step. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from penstock.model.monitoring import FindingNote
from penstock.server.ui.formats import count
from penstock.server.ui.runbooks import RUNBOOKS

Severity = Literal["critical", "warning", "note"]
# Their order in a list.
SEVERITIES: Final = {"critical": 0, "warning": 1, "note": 2}
ENOUGH_TO_GROUP: Final = 3
NAMED: Final = 5
# Findings whose subject is a queue.
QUEUE_KINDS: Final = frozenset(
    {"no-worker", "full", "behind", "failing", "paused", "dead-letters", "leases"}
)
# The page that lists the findings of a kind.
LISTS: Final = {
    **{kind: f"/queues?only={kind}" for kind in QUEUE_KINDS},
    "dead-letters": "/dead-letters",
    "silent-worker": "/workers",
    "schedule": "/schedules",
    "horizon": "/system#horizon",
    "lake": "/analytics",
    "ring": "/system",
    "rescan": "/system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem, with a link and the next step.

    `kind` names its runbook, and `subject` the queue, worker, schedule or lake. `impact` is how
    many messages it concerns, and `count` how many findings of its kind are in it. `note` is there
    if an operator acknowledged or muted it.
    """

    kind: str
    subject: str
    severity: Severity
    title: str
    text: str
    href: str
    queue: str | None = None
    act: str | None = None
    act_href: str | None = None
    impact: int = 0
    count: int = 1
    note: FindingNote | None = None

    @property
    def is_muted(self) -> bool:
        return self.note is not None and self.note.state == "muted"

    @property
    def identity(self) -> str:
        """The same for the same trouble, even if its numbers change."""
        return f"{self.kind}:{self.subject}"

    @property
    def advice(self) -> str:
        return RUNBOOKS[self.kind].advice


def grouped(findings: list[Finding]) -> list[Finding]:
    """One finding for three or more of a kind, so that no kind hides another.

    New findings are not grouped with those that were acknowledged or muted.
    """
    kinds: dict[tuple[str, str, bool, bool], list[Finding]] = {}
    for finding in findings:
        group = (finding.kind, finding.severity, finding.note is not None, finding.is_muted)
        kinds.setdefault(group, []).append(finding)
    found: list[Finding] = []
    for members in kinds.values():
        found += members if len(members) < ENOUGH_TO_GROUP else [_group(members)]
    return sorted(found, key=rank)


def _group(members: list[Finding]) -> Finding:
    first, impact = members[0], sum(member.impact for member in members)
    names = [member.queue or member.title for member in members]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    messages = f", with {count(impact)} message{'' if impact == 1 else 's'}" if impact else ""
    return Finding(
        kind=first.kind,
        subject="",
        severity=first.severity,
        title=RUNBOOKS[first.kind].many.format(count(len(members))),
        text=f"{', '.join(names[:NAMED])}{more}{messages}.",
        href=LISTS[first.kind],
        impact=impact,
        count=len(members),
        note=first.note,
    )


def rank(finding: Finding) -> tuple[bool, int, int]:
    """New findings first, then by severity and impact."""
    return (finding.note is not None, SEVERITIES[finding.severity], -finding.impact)
