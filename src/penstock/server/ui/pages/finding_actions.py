"""Acknowledge a finding, mute it, or take either back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

from penstock.commands.write.findings import clear_findings, note_findings
from penstock.model.monitoring import NoteState
from penstock.server.transport.problems import HttpError
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.diagnosis import diagnose
from penstock.server.ui.findings import QUEUE_KINDS, Severity
from penstock.server.ui.runbooks import RUNBOOKS
from penstock.server.ui.visits import Visit, refused

DURATIONS: Final = {
    "4 hours": timedelta(hours=4),
    "1 hour": timedelta(hours=1),
    "1 day": timedelta(days=1),
    "7 days": timedelta(days=7),
    "30 days": timedelta(days=30),
}
SEVERITIES: Final[tuple[Severity, ...]] = ("note", "warning", "critical")
MOST: Final = 1000


class FindingAct(Act):
    """An action on all findings of a kind, or on those whose subjects the form names."""

    button: ClassVar[str]

    def kind(self, visit: Visit) -> str:
        kind = visit.asked("kind") or ""
        if kind not in RUNBOOKS:
            raise refused("kind", kind, ", ".join(RUNBOOKS))
        return kind

    async def subjects(self, visit: Visit, *, noted: bool) -> list[str]:
        """The findings of the action. The visitor must be allowed to operate the queue of each."""
        kind = self.kind(visit)
        named = visit.asked_all("subject")
        if not named:
            severity = visit.asked("severity")
            named = [
                finding.subject
                for finding in diagnose(await visit.look())
                if (finding.kind, finding.severity) == (kind, severity)
                and (finding.note is not None) == noted
            ]
        if not 1 <= len(named) <= MOST:
            raise HttpError(409, "FindingEnded", "this finding no longer exists")
        for subject in named:
            if kind in QUEUE_KINDS:
                visit.principal.require("operate", subject)
            else:
                visit.principal.require_all("operate")
        return named

    def form(self, visit: Visit, subjects: list[str], text: str, *fields: Field) -> Question:
        kind = self.kind(visit)
        names = ", ".join(subject for subject in subjects[:5] if subject) or "-"
        return Question(
            title=f"{self.button}: {RUNBOOKS[kind].title.lower()}",
            button=self.button,
            back="/",
            text=[text],
            count=len(subjects),
            unit="finding" if len(subjects) == 1 else "findings",
            facts={"About": names + (f" and {len(subjects) - 5} more" if subjects[5:] else "")},
            fields=[
                Field(name="kind", kind="hidden", value=kind),
                Field(name="severity", kind="hidden", value=visit.asked("severity") or ""),
                *(Field(name="subject", kind="hidden", value=subject) for subject in subjects),
                *fields,
            ],
        )


class Note(FindingAct):
    """Acknowledge or mute, with a reason and an end."""

    state: ClassVar[NoteState]
    text: ClassVar[str]

    async def ask(self, visit: Visit) -> Question:
        subjects = await self.subjects(visit, noted=False)
        chosen = visit.asked("for") or next(iter(DURATIONS))
        return self.form(
            visit,
            subjects,
            self.text,
            Field(
                name="reason",
                label="Reason",
                value=visit.asked("reason") or "",
                required=True,
                hint="The known cause, or who is working on it.",
            ),
            Field(
                name="for",
                label="For",
                kind="select",
                value=chosen,
                options=[
                    (each, each) for each in sorted(DURATIONS, key=lambda each: DURATIONS[each])
                ],
                hint="It also ends when the finding becomes more severe.",
            ),
        )

    async def do(self, visit: Visit) -> Deed:
        subjects = await self.subjects(visit, noted=False)
        reason = visit.asked("reason")
        if reason is None or len(reason) > 500:
            raise refused("reason", reason or "", "1 to 500 characters")
        length = visit.asked_one("for", tuple(DURATIONS))
        until_at = datetime.now(UTC) + DURATIONS[length]
        severity = visit.asked_one("severity", SEVERITIES)
        kind = self.kind(visit)
        queue = subjects[0] if kind in QUEUE_KINDS and len(subjects) == 1 else None
        command = note_findings(
            kind, subjects, self.state, severity, reason, until_at, visit.principal.name
        )
        return Deed(
            command=command,
            act=self.button.lower(),
            target=kind,
            to="/",
            details={
                "subjects": subjects[:20],
                "reason": reason,
                "until_at": until_at.isoformat(timespec="seconds"),
                "queue": queue,
            },
            answer_is="count",
        )


class Acknowledge(Note):
    path = "/findings/acknowledge"
    button = "Acknowledge"
    state = "acknowledged"
    text = "It stays in the list, with your name and reason, and no longer counts as new."


class Mute(Note):
    path = "/findings/mute"
    button = "Mute"
    state = "muted"
    text = "The list hides the finding, and its queue is not marked. A link shows muted findings."


class Clear(FindingAct):
    path = "/findings/clear"
    button = "Show as new"

    async def ask(self, visit: Visit) -> Question:
        subjects = await self.subjects(visit, noted=True)
        return self.form(visit, subjects, "It counts as new again.")

    async def do(self, visit: Visit) -> Deed:
        subjects = await self.subjects(visit, noted=True)
        kind = self.kind(visit)
        queue = subjects[0] if kind in QUEUE_KINDS and len(subjects) == 1 else None
        return Deed(
            command=clear_findings(kind, subjects),
            act="clear finding",
            target=kind,
            to="/",
            details={"subjects": subjects[:20], "queue": queue},
            answer_is="count",
        )


ACTS: Final = (Acknowledge(), Mute(), Clear())
