"""Signed tokens for sessions of the pages and for sign-in links.

The secret that the servers share signs them. This module imports no web framework, because the
command line prints links, too. `<claims>.<signature>`: the claims are the key or user, the end, an
id by which the token can be ended, and the roles of a user.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from penstock.commands.command import Command
from penstock.commands.write.keys import server_secret
from penstock.server.auth.api_keys import key_id

Kind = Literal["session", "link", "csrf", "sso"]
SESSION_SECONDS: Final = 12 * 3600
LINK_SECONDS: Final = 15 * 60


class Claims(NamedTuple):
    """The claims of a token."""

    id: str
    subject: str
    until: int
    roles: Sequence[str] = ()


def issue(secret: bytes, kind: Kind, subject: str, seconds: int, roles: Sequence[str] = ()) -> str:
    """Return a token for the id of a key, or for a user with roles. It is valid for `seconds`."""
    claims = Claims(secrets.token_urlsafe(16), subject, int(time.time()) + seconds, roles)
    body = _b64(json.dumps(claims).encode())
    return f"{body}.{_b64(sign(secret, kind, body))}"


def read(secret: bytes, kind: Kind, token: str) -> Claims | None:
    """The claims of a token of this kind, or None if it is invalid or has expired."""
    body, _, signature = token.partition(".")
    try:
        if not hmac.compare_digest(_unb64(signature), sign(secret, kind, body)):
            return None
        claims = Claims(*json.loads(_unb64(body)))
    except (ValueError, TypeError):
        return None
    return claims if claims.until > time.time() else None


def sign(secret: bytes, kind: Kind, body: str) -> bytes:
    return hmac.digest(secret, f"{kind} {body}".encode(errors="surrogatepass"), hashlib.sha256)


def sign_in_path(run: Callable[[Command[bytes]], Any], key: str) -> str:
    """The path of a sign-in link for a key. It works once, for a short time."""
    secret = run(server_secret(secrets.token_bytes(32)))
    return f"/login?link={issue(secret, 'link', key_id(key) or '', LINK_SECONDS)}"


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
