"""Where messages about findings go.

| variable | meaning | default |
|---|---|---|
| `PENSTOCK_NOTIFY_WEBHOOK` | the URL that gets a JSON document by POST | none |
| `PENSTOCK_NOTIFY_SECRET` | signs what the webhook gets, with HMAC-SHA256 | none |
| `PENSTOCK_NOTIFY_SLACK` | the URL of an incoming webhook of Slack | none |
| `PENSTOCK_NOTIFY_SEVERITY` | the least severity: `critical`, `warning` or `note` | warning |
| `PENSTOCK_NOTIFY_UI` | the address of the admin UI, for links | none |

The URLs and the secret are credentials. No error and no log line contains them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from penstock.errors import ConfigurationError

PREFIX: Final = "PENSTOCK_NOTIFY_"
SEVERITIES: Final = ("critical", "warning", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """The current settings. See the table above."""

    webhook: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    slack: str | None = field(default=None, repr=False)
    severity: str = "warning"
    ui: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> NotificationSettings:
        found = os.environ if environment is None else environment

        def value(name: str) -> str | None:
            return found.get(PREFIX + name, "").strip() or None

        for name in ("WEBHOOK", "SLACK", "UI"):
            _check_url(name, value(name))
        severity = value("SEVERITY") or "warning"
        if severity not in SEVERITIES:
            raise ConfigurationError(
                f"{PREFIX}SEVERITY is {severity!r}", hint=f"Allowed: {', '.join(SEVERITIES)}."
            )
        ui = value("UI")
        return cls(
            webhook=value("WEBHOOK"),
            secret=value("SECRET"),
            slack=value("SLACK"),
            severity=severity,
            ui=ui and ui.rstrip("/"),
        )

    @property
    def enabled(self) -> bool:
        return self.webhook is not None or self.slack is not None

    def includes(self, severity: str) -> bool:
        """Whether a finding of this severity is worth a message."""
        return SEVERITIES.index(severity) <= SEVERITIES.index(self.severity)


def _check_url(name: str, text: str | None) -> None:
    if text is None:
        return
    try:
        url = urlsplit(text)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        valid = False
    if not valid or any(character.isspace() or not character.isprintable() for character in text):
        raise ConfigurationError(
            f"{PREFIX}{name} is not a URL",  # it may be a credential, so it is not shown
            hint="Give an address that begins with https:// or http://.",
        )
