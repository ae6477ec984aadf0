"""Acknowledge and mute what the admin UI finds wrong."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, call, scalar
from penstock.model.monitoring import NoteState

_NOTE: Final = call(
    "note_findings",
    kind="text",
    subjects="text[]",
    state="text",
    severity="text",
    reason="text",
    until_at="timestamptz",
    noted_by="text",
)
_CLEAR: Final = call("clear_findings", kind="text", subjects="text[]")


def note_findings(
    kind: str,
    subjects: Sequence[str],
    state: NoteState,
    severity: str,
    reason: str,
    until_at: datetime,
    noted_by: str,
) -> Command[int]:
    """Acknowledge or mute findings of a kind until a time. The result is their number."""
    params = {
        "kind": check.text("kind", kind),
        "subjects": [check.text("subjects", subject) for subject in subjects],
        "state": state,
        "severity": severity,
        "reason": check.text("reason", reason),
        "until_at": check.moment("until_at", until_at),
        "noted_by": noted_by,
    }
    return Command(_NOTE, params, scalar)


def clear_findings(kind: str, subjects: Sequence[str]) -> Command[int]:
    """Take back acknowledgements and mutes of findings of a kind. The result is their number."""
    params = {
        "kind": check.text("kind", kind),
        "subjects": [check.text("subjects", subject) for subject in subjects],
    }
    return Command(_CLEAR, params, scalar)
