"""Addresses of services, in any form that libpq reads.

An address is hostile input: libpq opens the files that it names, and takes what is missing from
the environment and the home directory of the server. So only harmless keywords are allowed, and
the rest is set to values that keep libpq from looking.

| variable | meaning | default |
|---|---|---|
| `PENSTOCK_SERVICE_PATHS` | directories for sockets, certificates, keys and passwords | none |

Socket directories and the files of TLS must be below one of them. `password_file` is the name of a
file directly in one of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.errors import ConfigurationError, InvalidValueError
from penstock.secrets import SecretBox
from penstock.settings import normalise_dsn

PATHS: Final = "PENSTOCK_SERVICE_PATHS"
DEFAULT: Final = "defaultdb"
"""An alias of the database in a service's address."""
CONNECT_SECONDS: Final = 3
MAX_PASSWORD_BYTES: Final = 4096
_KEYWORDS: Final = frozenset(
    {
        *("host", "hostaddr", "port", "dbname", "user", "password", "connect_timeout", "sslmode"),
        *("sslpassword", "sslcertmode", "requirepeer", "krbsrvname", "gsslib"),
        *("sslnegotiation", "sslsni", "channel_binding", "require_auth", "options"),
        *("ssl_min_protocol_version", "ssl_max_protocol_version", "sslcompression", "gssencmode"),
        *("target_session_attrs", "load_balance_hosts", "application_name", "client_encoding"),
        *("fallback_application_name", "keepalives", "keepalives_idle", "keepalives_interval"),
        *("keepalives_count", "tcp_user_timeout", "min_protocol_version", "max_protocol_version"),
    }
)
# Keywords that name files, which are accepted below the directories of the setting.
_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir")
_OAUTH: Final = "a server cannot sign in on a page; use a password or a certificate"
_SCRAM: Final = "it would be stored unencrypted; use a password"
# Keywords that libpq accepts and services do not, with the reason.
_REFUSED: Final = {
    "passfile": "it names a file of passwords; use password, or password_file",
    "service": "it names a section of a file; write the address itself",
    "servicefile": "it names a file of addresses; write the address itself",
    "sslkeylogfile": "libpq would write the secrets of connections into this file",
    "gssdelegation": "the service would get the Kerberos credentials of the server",
    "replication": "connections for replication run no queries",
    "scram_client_key": _SCRAM,
    "scram_server_key": _SCRAM,
    "oauth_issuer": _OAUTH,
    "oauth_client_id": _OAUTH,
    "oauth_client_secret": _OAUTH,
    "oauth_scope": _OAUTH,
}
# The stored address contains the passphrase of the client key encrypted, after this mark.
_SEALED: Final = "encrypted:"
# A file that does not exist: libpq must not look into the password file of the server.
_NO_FILE: Final = "/nonexistent/penstock"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """The address of a service without its password, and where the password is."""

    dsn: str
    secret: str | None = field(default=None, repr=False)  # encrypted
    password_file: str | None = None

    @property
    def database_name(self) -> str:
        """As in libpq, the default is the name of the user."""
        found = conninfo_to_dict(self.dsn)
        return str(found.get("dbname") or found.get("user") or _own_user() or "postgres")


class Addresses:
    """Checks addresses, and makes connection strings of them."""

    def __init__(self, paths: tuple[Path, ...], box: SecretBox) -> None:
        self._paths = paths
        self.box = box

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Addresses:
        found = os.environ if environment is None else environment
        names = [each for each in found.get(PATHS, "").split(":") if each.strip()]
        if any(not name.startswith("/") for name in names):
            raise ConfigurationError(
                f"{PATHS} has a relative path", hint="Separate absolute paths by colons."
            )
        paths = tuple(Path(os.path.realpath(name)) for name in names)
        return cls(paths, SecretBox.from_environment(found))

    def stored(
        self, dsn: str, password: str | None = None, password_file: str | None = None
    ) -> ServiceAddress:
        """An address as it is stored, with its password encrypted. InvalidValueError if refused."""
        parts = self._checked(_without_nul(dsn, "dsn"))
        own = parts.pop("password", None)
        if sum(each is not None for each in (own, password, password_file)) > 1:
            raise _refused("the password is given more than once", "one password", "password")
        if password_file is not None:
            self._password(password_file)
        secret = own if password is None else _without_nul(password, "password")
        passphrase = parts.get("sslpassword", "")
        try:
            sealed = None if secret is None else self.box.seal(secret)
            if passphrase.startswith(_SEALED):  # the stored address, with another password
                self.box.open(passphrase.removeprefix(_SEALED))
            elif passphrase:
                parts["sslpassword"] = _SEALED + self.box.seal(passphrase)
        except ConfigurationError as error:
            raise InvalidValueError(error.message, hint=error.hint, field="password") from None
        return ServiceAddress(make_conninfo("", **parts), sealed, password_file)

    def conninfo(self, address: ServiceAddress, database_name: str = DEFAULT) -> str:
        """The connection string. The stored address is checked again, because it may be older than
        the rules, or written by another program."""
        parts = self._checked(address.dsn)
        parts["dbname"] = address.database_name if database_name == DEFAULT else database_name
        if not parts.get("user") and (user := _own_user()) is not None:
            parts["user"] = user
        password = parts.pop("password", "")
        if address.secret is not None:
            password = self.box.open(address.secret)
        elif address.password_file is not None:
            password = self._password(address.password_file)
        fixed = {"password": _without_nul(password, "password"), "passfile": _NO_FILE}
        if "sslcert" not in parts:
            fixed |= _no_certificate(psycopg.pq.version())
        passphrase = parts.get("sslpassword", "")
        if passphrase.startswith(_SEALED):
            fixed["sslpassword"] = self.box.open(passphrase.removeprefix(_SEALED))
        defaults = {"connect_timeout": str(CONNECT_SECONDS), "gssencmode": "disable"}
        return make_conninfo("", **{**defaults, **parts, **fixed})

    def resealed(self, address: ServiceAddress) -> ServiceAddress:
        """The address with its secrets encrypted under the first key."""
        parts = {name: str(value) for name, value in conninfo_to_dict(address.dsn).items()}
        passphrase = parts.get("sslpassword", "")
        if passphrase.startswith(_SEALED):
            found = self.box.open(passphrase.removeprefix(_SEALED))
            parts["sslpassword"] = _SEALED + self.box.seal(found)
        secret = address.secret and self.box.seal(self.box.open(address.secret))
        return ServiceAddress(make_conninfo("", **parts), secret, address.password_file)

    def _checked(self, dsn: str) -> dict[str, str]:
        try:
            found = conninfo_to_dict(normalise_dsn(dsn, "dsn"))
        except ConfigurationError as error:
            # libpq quotes the part that it cannot read, which may be the password.
            text = re.sub(r'"[^"]*"', '"..."', error.message)
            raise InvalidValueError(text, hint=error.hint, field="dsn") from None
        # libpq takes an empty file name for an absent one, and looks into the home directory.
        parts = {
            name: str(value)
            for name, value in found.items()
            if value is not None and (value or name not in _FILES)
        }
        for name in sorted(parts.keys() - _KEYWORDS - set(_FILES)):
            reason = _REFUSED.get(name, "this version does not know it")
            raise _refused(
                f"{name} is not allowed in the address of a service: {reason}",
                f"{', '.join(sorted(_KEYWORDS))}; and below a directory in {PATHS}: "
                f"{', '.join(_FILES)}",
            )
        if not parts.get("host") and not parts.get("hostaddr"):
            raise _refused(
                "the address names no host; the sockets of the server are not those of a service",
                "host=... or postgresql://host/...",
            )
        for host in parts.get("host", "").split(",") if "host" in parts else ():
            if not host and not parts.get("hostaddr"):
                raise _refused("a host is empty", "the name or address of every host")
            if host.startswith(("/", "@")):
                self._confined(host, "a socket")
        _check_ports(parts.get("port", ""))
        self._check_files(parts)
        return parts

    def _check_files(self, parts: Mapping[str, str]) -> None:
        for name in _FILES:
            path = parts.get(name)
            if path and (name, path) != ("sslrootcert", "system"):
                self._confined(path, name)
        # libpq would take the other one from the home directory of the server.
        if bool(parts.get("sslcert")) != bool(parts.get("sslkey")):
            raise _refused("sslcert and sslkey need each other", "both, or none of them")
        # libpq reads engine:key, and loads the engine.
        if ":" in parts.get("sslkey", ""):
            raise _refused("sslkey has a colon", "the path of a file, without a colon")

    def _confined(self, path: str, what: str) -> Path:
        """The path, if it is below an allowed directory, also after symbolic links."""
        real = Path(os.path.realpath(path))
        if path.startswith("/") and any(real.is_relative_to(each) for each in self._paths):
            return real
        raise _refused(
            f"{what} at {path!r:.200} is not in an allowed directory",
            f"paths below a directory in {PATHS}",
        )

    def _password(self, name: str) -> str:
        if not name or "/" in name or name.startswith("."):
            raise _refused(
                f"password_file is {name!r:.200}",
                "the name of a file, without a path",
                "password_file",
            )
        for directory in self._paths:
            try:
                file = self._confined(str(directory / name), "password_file")
                with file.open("rb") as opened:
                    text = opened.read(MAX_PASSWORD_BYTES).decode().removesuffix("\n")
                    return _without_nul(text, "password_file")
            except (OSError, ValueError):
                continue
        raise _refused(
            f"password_file {name!r:.200} cannot be read",
            f"the name of a file in a directory of {PATHS}",
            "password_file",
        )


def _no_certificate(libpq_version: int) -> dict[str, str]:
    """What keeps libpq from sending the certificate in the home directory of the server."""
    # Before version 16, a certificate that does not exist has the same effect.
    return {"sslcertmode": "disable"} if libpq_version >= 160000 else {"sslcert": _NO_FILE}


def _own_user() -> str | None:
    """The user of addresses without one, as in libpq: PGUSER, or the account of the server."""
    defaults = psycopg.pq.Conninfo.get_defaults()
    return next((o.val.decode() for o in defaults if o.keyword == b"user" and o.val), None)


def _without_nul(text: str, field: str) -> str:
    """Refuse a NUL. libpq ignores the text after it, and with it the settings that follow."""
    if "\0" in text:
        raise _refused(f"{field} contains the character NUL", "text without NUL", field)
    return text


def _check_ports(ports: str) -> None:
    for port in filter(None, ports.split(",")):
        if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            raise _refused(f"the port is {port!r:.100}", "1 to 65535, for each host")


def without_password(dsn: str) -> str:
    """The address, for another password."""
    found = conninfo_to_dict(dsn)
    found.pop("password", None)
    return make_conninfo("", **found)


def shown_address(dsn: str) -> dict[str, str | None]:
    """The parts of an address that are not secret, in addition to the database."""
    found = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    return {
        "host": found.get("host") or found.get("hostaddr"),
        "port": found.get("port"),
        "user": found.get("user"),
    }


def _refused(message: str, allowed: str, field: str = "dsn") -> InvalidValueError:
    return InvalidValueError(f"{message}; allowed: {allowed}", field=field, allowed=allowed)
