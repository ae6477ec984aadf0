"""The settings of the HTTP server, read and checked at the start.

| variable | meaning | default |
|---|---|---|
| `PENSTOCK_HTTP_HOST` | the address to listen on | 127.0.0.1 |
| `PENSTOCK_HTTP_PORT` | the port; 0 takes any free one | 8080 |
| `PENSTOCK_HTTP_PROCESSES` | server processes on this machine, which share the port | 1 |
| `PENSTOCK_HTTP_POOL` | connections to the database, for each process | 10 |
| `PENSTOCK_HTTP_MAX_BODY_BYTES` | the largest body that is read | 32 MiB |
| `PENSTOCK_HTTP_BODIES_BYTES` | all bodies in memory together | 64 MiB |
| `PENSTOCK_HTTP_ANSWER_BYTES` | messages in one answer; a dequeue hands out fewer | 16 MiB |
| `PENSTOCK_HTTP_ANSWERS_BYTES` | answers that callers have not read yet, per process | 128 MiB |
| `PENSTOCK_HTTP_BODY_SECONDS` | how long a body may take to arrive | 30 |
| `PENSTOCK_HTTP_IDLE_SECONDS` | how long a connection may wait for its next request | 60 |
| `PENSTOCK_HTTP_WRITE_SECONDS` | how long a caller may read nothing of an answer | 30 |
| `PENSTOCK_HTTP_MAX_CONNECTIONS` | open connections, for each process | 20000 |
| `PENSTOCK_HTTP_AUTH_FAILURES` | wrong credentials in a minute, for a key or from an address | 10 |
| `PENSTOCK_HTTP_DRAIN_SECONDS` | how long requests may continue after SIGTERM | 20 |
| `PENSTOCK_HTTP_ACCESS_LOG` | `json` lines on stderr, or `off` | json |
| `PENSTOCK_HTTP_UPKEEP` | `off` leaves expiry and schedules to workers and claims | on |
| `PENSTOCK_HTTP_PUBLIC_URL` | the address that browsers use, behind a proxy | none |
| `PENSTOCK_HTTP_CORS_ORIGINS` | origins whose pages may call the API from a browser | none |
| `PENSTOCK_HTTP_SECURE_COOKIES` | `on` behind TLS: cookies of the UI are for https only | off |
| `PENSTOCK_HTTP_TRACE_URL` | where traces are shown; `{trace_id}` stands for the id | none |
| `PENSTOCK_HTTP_REDACT` | `payloads`: the UI shows neither payloads nor headers | off |
| `PENSTOCK_TRUSTED_PROXIES` | addresses and networks whose `X-Forwarded-For` counts | none |
| `PENSTOCK_SSO_ISSUER` | the OpenID Connect provider that users sign in with | none |
| `PENSTOCK_SSO_CLIENT_ID`, `PENSTOCK_SSO_CLIENT_SECRET` | the server's credentials there | none |
| `PENSTOCK_SSO_SCOPES` | what is asked of the provider | openid email profile |
| `PENSTOCK_SSO_USER_CLAIM` | the claim with the user's name | email |
| `PENSTOCK_SSO_ROLES_CLAIM` | the claim with the user's roles | groups |
| `PENSTOCK_SSO_ROLES` | the scopes of each role | none |
| `PENSTOCK_SSO_USER_HEADER` | the header in which a trusted proxy names the user | none |
| `PENSTOCK_SSO_ROLES_HEADER` | the header in which it lists the user's roles | none |
| `PENSTOCK_PUSH` | `off`: this server sends no messages of subscriptions | on |
| `PENSTOCK_PUSH_BYTES` | messages of subscriptions in memory, for each process | 16 MiB |
| `PENSTOCK_SERVICE_WAIT_SECONDS` | how long tasks of a service wait for it; or `forever` | 60 |

`push_networks` has PENSTOCK_PUSH_NETWORKS: see push/networks.py.
`addresses` has PENSTOCK_SERVICE_PATHS and PENSTOCK_SECRET_KEY: see server/control/addresses.py and
secrets.py. `notify` has the variables that begin with PENSTOCK_NOTIFY: see
server/notifications/settings.py.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.errors import ConfigurationError
from penstock.model.access import Grant, parse_roles
from penstock.push.networks import AllowedNetworks
from penstock.server.control.addresses import Addresses
from penstock.server.notifications.settings import NotificationSettings
from penstock.server.proxies import Network, parse_networks

_PREFIX: Final = "PENSTOCK_HTTP_"
_PROXIES: Final = "PENSTOCK_TRUSTED_PROXIES"
_PUBLIC_URL: Final = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(?:/[A-Za-z0-9._~-]+)*")
# A browser sends an origin in lower case, without a path and without the usual port.
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.\-\[\]:]+")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_RANGES: Final = {
    "port": (0, 65535),
    "processes": (1, 64),
    "pool": (1, 1000),
    "max_body_bytes": (1024, 2**30),
    "bodies_bytes": (1024, 2**36),
    "answer_bytes": (1024, 2**30),
    "answers_bytes": (1024, 2**36),
    "body_seconds": (1, 3600),
    "idle_seconds": (1, 3600),
    "write_seconds": (1, 3600),
    "max_connections": (1, 1_000_000),
    "auth_failures": (1, 1_000_000),
    "drain_seconds": (0, 3600),
    "push_bytes": (1024, 2**36),
}
_WORDS: Final = {
    "access_log": ("json", "off"),
    "upkeep": ("on", "off"),
    "secure_cookies": ("on", "off"),
    "redact": ("off", "payloads"),
    "push": ("on", "off"),
}
# They have modules that read them.
_OTHERS: Final = ("notify", "addresses", "push_networks")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The current settings. See the table above."""

    host: str = "127.0.0.1"
    port: int = 8080
    processes: int = 1
    pool: int = 10
    max_body_bytes: int = 32 * 2**20
    bodies_bytes: int = 64 * 2**20
    answer_bytes: int = 16 * 2**20
    answers_bytes: int = 128 * 2**20
    body_seconds: int = 30
    idle_seconds: int = 60
    write_seconds: int = 30
    max_connections: int = 20_000
    auth_failures: int = 10
    drain_seconds: int = 20
    access_log: str = "json"
    upkeep: str = "on"
    public_url: str = ""
    cors_origins: frozenset[str] = frozenset()
    secure_cookies: str = "off"
    redact: str = "off"
    trace_url: str = ""
    trusted_proxies: tuple[Network, ...] = ()
    notify: NotificationSettings = field(default_factory=NotificationSettings)
    service_wait_seconds: int | None = 60
    push: str = "on"
    push_bytes: int = 16 * 2**20
    push_networks: AllowedNetworks = field(default_factory=AllowedNetworks.from_environment)
    addresses: Addresses = field(default_factory=Addresses.from_environment, repr=False)
    sso_issuer: str = ""
    sso_client_id: str = ""
    sso_client_secret: str = field(default="", repr=False)
    sso_scopes: str = "openid email profile"
    sso_user_claim: str = "email"
    sso_roles_claim: str = "groups"
    sso_roles: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    sso_user_header: str = ""
    sso_roles_header: str = ""

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **chosen: Any
    ) -> ServerSettings:
        """Options of the command line (`chosen`) have precedence. None means not given."""
        found = os.environ if environment is None else environment
        values = {
            each.name: _read(each.name, found[_variable(each.name)])
            for each in fields(cls)
            if each.name not in _OTHERS and found.get(_variable(each.name), "").strip()
        }
        values["notify"] = NotificationSettings.from_environment(found)
        values["addresses"] = Addresses.from_environment(found)
        values["push_networks"] = AllowedNetworks.from_environment(found)
        made = cls(**values | {name: v for name, v in chosen.items() if v is not None})
        _check_sign_on(made)
        return made

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def path_prefix(self) -> str:
        """The path of the public address, such as `/ops/penstock`; empty if it has none."""
        return urlsplit(self.public_url).path

    @property
    def public_host(self) -> str | None:
        """Host and port of the public address, as browsers send them in `Origin`."""
        return urlsplit(self.public_url).netloc or None

    @property
    def cookies_are_secure(self) -> bool:
        return self.secure_cookies == "on" or self.public_url.startswith("https:")


def _variable(name: str) -> str:
    if name == "trusted_proxies":
        return _PROXIES
    return (
        "PENSTOCK_" if name.startswith(("sso_", "service_", "push")) else _PREFIX
    ) + name.upper()


def _read(name: str, text: str) -> Any:
    text, variable = text.strip(), _variable(name)
    if name in _PARSED:
        parse, allowed = _PARSED[name]
        try:
            return parse(text)
        except ValueError:
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


def _check_sign_on(settings: ServerSettings) -> None:
    """Check the other settings that single sign-on needs."""
    needed: dict[str, Any] = {}
    if settings.sso_issuer:
        needed = {
            "PENSTOCK_SSO_CLIENT_ID": settings.sso_client_id,
            "PENSTOCK_HTTP_PUBLIC_URL": settings.public_url,
        }
        if not is_safe_address(settings.sso_issuer):
            raise _refused("PENSTOCK_SSO_ISSUER", settings.sso_issuer, "an https address")
    if settings.sso_user_header:
        needed[_PROXIES] = settings.trusted_proxies
    if settings.sso_issuer or settings.sso_user_header:
        needed["PENSTOCK_SSO_ROLES"] = settings.sso_roles
    for variable, value in needed.items():
        if not value:
            raise ConfigurationError(
                f"single sign-on needs {variable}", hint="See docs/how-to/single-sign-on.md."
            )


def is_safe_address(address: str) -> bool:
    """Whether the address is encrypted, or on this machine."""
    found = urlsplit(address)
    return found.scheme == "https" or (found.scheme == "http" and found.hostname in _LOOPBACK)


def _public_url(text: str) -> str:
    url = text.rstrip("/")
    if not _PUBLIC_URL.fullmatch(url) or "/../" in f"{url}/" or "/./" in f"{url}/":
        raise ValueError
    return url


def _trace_url(text: str) -> str:
    found = urlsplit(text)
    if found.scheme not in ("http", "https") or not found.netloc or "{trace_id}" not in text:
        raise ValueError
    return text


def _origins(text: str) -> frozenset[str]:
    found = [each.strip() for each in text.split(",")]
    if not all(_ORIGIN.fullmatch(each) for each in found):
        raise ValueError
    return frozenset(found)


def _wait_seconds(text: str) -> int | None:
    if text == "forever":
        return None
    if not text.isascii() or not text.isdigit() or not 0 <= int(text) <= 604_800:
        raise ValueError
    return int(text)


_PARSED: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    "trusted_proxies": (
        parse_networks,
        "addresses and networks separated by commas, such as 10.0.0.0/8, ::1",
    ),
    "service_wait_seconds": (_wait_seconds, "a whole number from 0 to 604800, or forever"),
    "public_url": (_public_url, "an address such as https://example.com/ops/penstock"),
    "cors_origins": (
        _origins,
        "origins separated by commas, such as https://shop.example.com, http://localhost:5173",
    ),
    "trace_url": (_trace_url, "an address such as https://traces.example.com/{trace_id}"),
    "sso_roles": (
        parse_roles,
        "roles with scopes, such as ops=operate; shop=operate:orders-*,read",
    ),
}


def _refused(variable: str, text: str, allowed: str) -> ConfigurationError:
    return ConfigurationError(f"{variable} is {text!r}", hint=f"Allowed: {allowed}.")
