"""How the HTTP server is set up: every setting, read and checked at once.

| variable | meaning | default |
|---|---|---|
| `PENSTOCK_HTTP_HOST` | the address to listen on | 127.0.0.1 |
| `PENSTOCK_HTTP_PORT` | the port; 0 takes any free one | 8080 |
| `PENSTOCK_HTTP_PROCESSES` | server processes on this machine, which share the port | 1 |
| `PENSTOCK_HTTP_POOL` | connections to the database, for each process | 10 |
| `PENSTOCK_HTTP_MAX_BODY_BYTES` | the largest body that is read | 16 MiB |
| `PENSTOCK_HTTP_BODIES_BYTES` | all bodies that are held at a moment, together | 64 MiB |
| `PENSTOCK_HTTP_BODY_SECONDS` | how long a body may take to arrive | 30 |
| `PENSTOCK_HTTP_IDLE_SECONDS` | how long a connection may wait for its next request | 60 |
| `PENSTOCK_HTTP_MAX_CONNECTIONS` | open connections, for each process | 20000 |
| `PENSTOCK_HTTP_AUTH_FAILURES` | wrong credentials in a minute, for a key or from an address | 10 |
| `PENSTOCK_HTTP_DRAIN_SECONDS` | how long requests may go on after SIGTERM | 20 |
| `PENSTOCK_HTTP_ACCESS_LOG` | `json` lines on stderr, or `off` | json |
| `PENSTOCK_HTTP_UPKEEP` | `off` leaves expiry and schedules to workers and claims | on |
| `PENSTOCK_HTTP_SECURE_COOKIES` | `on` behind TLS: cookies of the UI are for https only | off |
| `PENSTOCK_HTTP_REDACT` | `payloads`: the UI shows neither payloads nor headers | off |
| `PENSTOCK_TRUSTED_PROXIES` | addresses and networks whose `X-Forwarded-For` counts | none |

`notify` has the variables that begin with PENSTOCK_NOTIFY: see server/notifications/settings.py.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from penstock.errors import ConfigurationError
from penstock.server.notifications.settings import NotificationSettings
from penstock.server.transport.proxies import Network, parse_networks

_PREFIX: Final = "PENSTOCK_HTTP_"
_PROXIES: Final = "PENSTOCK_TRUSTED_PROXIES"
_RANGES: Final = {
    "port": (0, 65535),
    "processes": (1, 64),
    "pool": (1, 1000),
    "max_body_bytes": (1024, 2**30),
    "bodies_bytes": (1024, 2**36),
    "body_seconds": (1, 3600),
    "idle_seconds": (1, 3600),
    "max_connections": (1, 1_000_000),
    "auth_failures": (1, 1_000_000),
    "drain_seconds": (0, 3600),
}
_WORDS: Final = {
    "access_log": ("json", "off"),
    "upkeep": ("on", "off"),
    "secure_cookies": ("on", "off"),
    "redact": ("off", "payloads"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings in force; see the table above."""

    host: str = "127.0.0.1"
    port: int = 8080
    processes: int = 1
    pool: int = 10
    max_body_bytes: int = 16 * 2**20
    bodies_bytes: int = 64 * 2**20
    body_seconds: int = 30
    idle_seconds: int = 60
    max_connections: int = 20_000
    auth_failures: int = 10
    drain_seconds: int = 20
    access_log: str = "json"
    upkeep: str = "on"
    secure_cookies: str = "off"
    redact: str = "off"
    trusted_proxies: tuple[Network, ...] = ()
    notify: NotificationSettings = field(default_factory=NotificationSettings)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **chosen: Any
    ) -> ServerSettings:
        """`chosen`, from the command line, comes first; None there means not chosen."""
        found = os.environ if environment is None else environment
        values = {
            each.name: _read(each.name, found[_variable(each.name)])
            for each in fields(cls)
            if each.name != "notify" and found.get(_variable(each.name), "").strip()
        }
        values["notify"] = NotificationSettings.from_environment(found)
        return cls(**values | {name: v for name, v in chosen.items() if v is not None})

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def _variable(name: str) -> str:
    return _PROXIES if name == "trusted_proxies" else _PREFIX + name.upper()


def _read(name: str, text: str) -> Any:
    text, variable = text.strip(), _variable(name)
    if variable == _PROXIES:
        try:
            return parse_networks(text)
        except ValueError:
            allowed = "addresses and networks separated by commas, such as 10.0.0.0/8, ::1"
            raise _refused(variable, text, allowed) from None
    if name in _WORDS:
        if text not in _WORDS[name]:
            raise _refused(variable, text, " or ".join(_WORDS[name]))
        return text
    if name not in _RANGES:
        return text
    low, high = _RANGES[name]
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise _refused(variable, text, f"a whole number from {low} to {high}")
    return int(text)


def _refused(variable: str, text: str, allowed: str) -> ConfigurationError:
    return ConfigurationError(f"{variable} is {text!r}", hint=f"Allowed: {allowed}.")
