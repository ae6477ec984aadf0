"""Creates and checks API keys. A key is shown once, at its creation. The database has its hash.

`psk_<id>_<secret>`: the id identifies the key, the secret proves it. This module imports no web
framework, because the command line creates keys, too.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from penstock.commands.arguments import refuse
from penstock.commands.command import Command
from penstock.commands.write.keys import create_key
from penstock.errors import InvalidValueError
from penstock.model.access import Grant, parse_grants

_TOKEN: Final = re.compile(r"psk_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that is not stored yet. `token` is the text that its holder sends."""

    id: str
    name: str
    token: str
    scopes: list[str]
    expires_at: datetime | None
    command: Command[None]


def new_key(
    name: str,
    grants: Sequence[str],
    *,
    created_by: str | None = None,
    expires_at: datetime | None = None,
) -> NewKey:
    """A key with a new secret."""
    scopes = [str(grant) for grant in checked_grants(grants)]
    id = "".join(secrets.choice(_ALPHABET) for _ in range(12))
    token = f"psk_{id}_{secrets.token_urlsafe(32)}"
    command = create_key(
        id,
        name,
        hash_secret(token),
        scopes,
        created_by=created_by,
        expires_at=expires_at,
    )
    return NewKey(id, name, token, scopes, expires_at, command)


def checked_grants(scopes: Sequence[str]) -> tuple[Grant, ...]:
    """The grants of a key. InvalidValueError if a scope is unknown, or if there is none."""
    try:
        grants = parse_grants(scopes)
    except ValueError as error:
        raise InvalidValueError(str(error), field="scopes", value=list(scopes)) from None
    if not grants:
        raise refuse("scopes", list(scopes), "one or more scopes")
    return grants


def key_id(token: str) -> str | None:
    """The id of the key in a token, or None if it is not a token."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def hash_secret(secret: str) -> str:
    """SHA-256. A slow hash protects secrets that can be guessed, which 256 random bits cannot.

    With a fast hash the server can check every attempt, so wrong ones never lock out the right one.
    """
    return f"sha256${_b64(hashlib.sha256(secret.encode()).digest())}"


def is_slow(stored: str) -> bool:
    """Whether a check is slow. Keys of earlier versions use scrypt, which takes 40 ms."""
    return stored.startswith("scrypt$")


def matches(secret: str, stored: str) -> bool:
    """Whether the secret is the one that was hashed."""
    raw = secret.encode(errors="surrogatepass")
    if not is_slow(stored):
        return hmac.compare_digest(hashlib.sha256(raw).digest(), _raw(stored.partition("$")[2]))
    _, n, r, p, salt, digest = stored.split("$")
    made = hashlib.scrypt(raw, salt=_raw(salt), n=int(n), r=int(r), p=int(p))
    return hmac.compare_digest(made, _raw(digest))


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _raw(text: str) -> bytes:
    return base64.b64decode(text)
