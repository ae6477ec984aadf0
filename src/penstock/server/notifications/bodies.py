"""The documents about findings that a webhook and Slack receive. No I/O.

Titles and texts contain names and errors from other users. In Slack they are plain text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from penstock.model.monitoring import Announcement
from penstock.server.notifications.changes import Changes
from penstock.server.ui.findings import Finding, grouped
from penstock.server.ui.formats import duration

LINES: Final = 15
_MARKS: Final = {"critical": ":red_circle:", "warning": ":large_orange_circle:", "note": ":memo:"}


class Bodies:
    """Writes them, with links to the admin UI if its address is known."""

    def __init__(self, source: str, ui: str | None, redact: bool) -> None:
        self._source = source
        self._ui = ui
        self._redact = redact

    def webhook(self, changes: Changes, now: datetime) -> bytes:
        """The document of the webhook, with every finding."""
        document = {
            "source": self._source,
            "at": now.isoformat(),
            "new": [self._finding(each) for each in changes.new],
            "recovered": [self._announcement(each) for each in changes.recovered],
        }
        return json.dumps(document, ensure_ascii=False).encode()

    def slack(self, changes: Changes, now: datetime) -> bytes:
        """The message of Slack: many findings of a kind in one line."""
        lines = [self._line(each) for each in grouped(changes.new)]
        lines += [
            f":white_check_mark: *Over:* {escaped(each.title)} "
            f"(after {duration((now - each.since).total_seconds())})"
            for each in changes.recovered
        ]
        shown, more = lines[:LINES], len(lines) - LINES
        if more > 0:
            shown.append(f"and {more} more")
        text = "\n".join([f"*Penstock* on {escaped(self._source)}", *shown])
        return json.dumps({"text": text}, ensure_ascii=False).encode()

    def _line(self, finding: Finding) -> str:
        title = escaped(finding.title)
        if self._ui is not None:
            title = f"<{self._ui}{finding.href}|{title}>"
        text = "" if self._redact else f" {escaped(_first_line(finding.text))}"
        runbook = "" if self._ui is None else f" <{self._ui}/runbooks#{finding.kind}|Runbook>"
        return f"{_MARKS[finding.severity]} {title}.{text} {escaped(finding.advice)}{runbook}"

    def _finding(self, finding: Finding) -> dict[str, Any]:
        return {
            "finding": finding.identity,
            "kind": finding.kind,
            "severity": finding.severity,
            "title": finding.title,
            "text": None if self._redact else finding.text,
            "advice": finding.advice,
            "queue": finding.queue,
            **self._links(finding.kind, finding.href),
        }

    def _announcement(self, announced: Announcement) -> dict[str, Any]:
        return {
            "finding": announced.finding,
            "kind": announced.kind,
            "severity": announced.severity,
            "title": announced.title,
            "since": announced.since.isoformat(),
        }

    def _links(self, kind: str, href: str) -> dict[str, str]:
        if self._ui is None:
            return {}
        return {"url": self._ui + href, "runbook_url": f"{self._ui}/runbooks#{kind}"}


def escaped(text: str) -> str:
    """Text that Slack shows as it is: without links, mentions or several lines."""
    flat = " ".join(text.split())
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _first_line(text: str) -> str:
    lines: Sequence[str] = text.strip().splitlines()
    return lines[0][:300] if lines else ""
