"""Who is calling: API keys by Basic or Bearer, and signed sessions for the pages.

A key's hash takes 40 ms to check, so a proof is remembered, for as long as the key lives: by a
keyed digest, never the secret itself. Failures are counted for each peer address, which no header
can change; a peer with too many is told to wait before anything is hashed for it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from penstock import oversight
from penstock.access import Grant, KeyHash, Scope
from penstock.errors import AuthenticationError, PermissionDeniedError
from penstock.operations.keys import server_secret
from penstock.server.database import Database
from penstock.server.keys import hash_secret, key_id, matches
from penstock.server.problems import HttpError

RELOAD_SECONDS: Final = 5.0
INTERNAL: Final = "penstock."
SESSION_SECONDS: Final = 12 * 3600
FAILURES_SECONDS: Final = 60.0
_REMEMBERED: Final = 10_000
_ANSWERS: Final = 1000
_HOW: Final = "Send `Authorization: Bearer <key>`, or the key's name and the key by Basic."


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key, known by its name."""

    key_id: str
    name: str
    grants: tuple[Grant, ...]
    # What was found out before: a caller asks about the same few queues again and again.
    _answers: dict[tuple[Scope, str | None], bool] = field(
        default_factory=dict, compare=False, repr=False
    )

    def may(self, scope: Scope, queue: str | None = None) -> bool:
        """`penstock.` begins the names of the server's own queues: they are for admins."""
        known = self._answers.get((scope, queue))
        if known is not None:
            return known
        needed: Scope = scope
        if queue is not None and queue.startswith(INTERNAL):
            needed = "admin"
        if len(self._answers) >= _ANSWERS:
            self._answers.clear()
        answer = any(grant.covers(needed, queue) for grant in self.grants)
        self._answers[scope, queue] = answer
        return answer

    def require(self, scope: Scope, queue: str | None = None) -> None:
        """PermissionDeniedError unless this scope was granted, for this queue."""
        if not self.may(scope, queue):
            where = "" if queue is None else f" on {queue!r}"
            raise PermissionDeniedError(
                f"key {self.name!r} has not the scope {scope!r}{where}",
                hint="Use a key that has it: `penstock key create NAME --scope "
                f"{scope}{'' if queue is None else ':' + queue}`.",
                scope=scope,
                queue=queue,
            )

    def unlimited(self, scope: Scope) -> bool:
        """Whether the scope was granted on all queues."""
        return any(grant.pattern == "*" and grant.covers(scope, None) for grant in self.grants)

    def only(self, scope: Scope, queues: Iterable[str]) -> list[str]:
        """Those of the queues on which the scope was granted."""
        return [queue for queue in queues if self.may(scope, queue)]


class Failures:
    """How often each peer failed lately. Holds at most as many as failed within a minute."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: dict[str, list[float]] = {}

    def wait(self, peer: str) -> int:
        """Seconds until the peer may try again; 0 is now."""
        now = time.monotonic()
        lately = [at for at in self._times.get(peer, ()) if at > now - FAILURES_SECONDS]
        if not lately:
            self._times.pop(peer, None)
            return 0
        self._times[peer] = lately
        return 0 if len(lately) < self._most else int(lately[0] + FAILURES_SECONDS - now) + 1

    def add(self, peer: str) -> None:
        now = time.monotonic()
        if len(self._times) >= _REMEMBERED:
            self._times = {p: t for p, t in self._times.items() if t[-1] > now - FAILURES_SECONDS}
        self._times.setdefault(peer, []).append(now)


class Authenticator:
    """Recognises the holders of keys and of sessions."""

    def __init__(self, database: Database, failures: int) -> None:
        self._database = database
        self._by_id: dict[str, KeyHash] = {}
        self._by_name: dict[str, KeyHash] = {}
        self._loaded_at = -1e9
        self._changes = 0
        self._loading = asyncio.Lock()
        # Proofs by keyed digest: a leak of this process's memory would not give secrets away.
        self._digest_key = secrets.token_bytes(32)
        self._proven: dict[bytes, tuple[KeyHash, Principal]] = {}
        self._proving: dict[bytes, asyncio.Task[KeyHash | None]] = {}
        self._hashing = asyncio.Semaphore(2)
        self._failures = Failures(failures)
        self._secret: bytes | None = None

    def forget(self) -> None:
        """Read the keys again at the next call: one was made or revoked."""
        self._loaded_at = -1e9
        self._changes += 1

    def known(self, authorization: bytes) -> Principal | None:
        """The holder of credentials that are proven, without a wait; else None: `authenticate`."""
        if time.monotonic() - self._loaded_at >= RELOAD_SECONDS:
            return None
        return self._proven_holder(self._digest(authorization))

    async def authenticate(self, authorization: str | None, peer: str) -> Principal:
        """The holder of the credentials; AuthenticationError if there is none."""
        if authorization is None:
            raise AuthenticationError("no credentials were given", hint=_HOW)
        await self._load()
        digest = self._digest(authorization.encode("latin-1", "backslashreplace"))
        proven = self._proven_holder(digest)
        if proven is not None:
            return proven
        if wait := self._failures.wait(peer):
            raise HttpError(
                429,
                "TooManyFailures",
                "too many failed credentials came from this address",
                hint=f"Wait {wait} s.",
                headers={"Retry-After": str(wait)},
            )
        found = await self._proof(digest, authorization)
        if found is None:
            self._failures.add(peer)
            raise AuthenticationError("these credentials are not known", hint=_HOW)
        return found

    def _digest(self, authorization: bytes) -> bytes:
        return hashlib.blake2b(authorization, key=self._digest_key, digest_size=32).digest()

    def _proven_holder(self, digest: bytes) -> Principal | None:
        proven = self._proven.get(digest)
        if proven is None:
            return None
        key, principal = proven
        return principal if self._by_id.get(key.id) is key and _is_live(key) else None

    async def _proof(self, digest: bytes, authorization: str) -> Principal | None:
        """Hundreds of connections may come with one new key at once: it is hashed once."""
        begun = self._proving.get(digest)
        if begun is None:
            begun = self._proving[digest] = asyncio.create_task(self._prove(authorization))
            begun.add_done_callback(lambda _: self._proving.pop(digest, None))
        key = await asyncio.shield(begun)
        if key is None:
            return None
        if len(self._proven) >= _REMEMBERED:
            self._proven.clear()
        principal = Principal(key.id, key.name, key.grants)
        self._proven[digest] = key, principal
        return principal

    async def _prove(self, authorization: str) -> KeyHash | None:
        user, secret = _credentials(authorization)
        if secret is None:
            return None
        key = self._find(user, secret)
        if key is None:  # it may be new
            self.forget()
            await self._load()
            key = self._find(user, secret)
        live = key is not None and _is_live(key)
        async with self._hashing:
            # An unknown name costs as long as a known one: it must not show which there are.
            stored = key.secret_hash if key is not None and live else _decoy()
            right = await asyncio.to_thread(matches, secret, stored)
        return key if right and live else None

    def _find(self, user: str | None, secret: str) -> KeyHash | None:
        return self._by_name.get(user) if user else self._by_id.get(key_id(secret) or "")

    async def _load(self) -> None:
        if time.monotonic() - self._loaded_at < RELOAD_SECONDS:
            return
        async with self._loading:
            if time.monotonic() - self._loaded_at < RELOAD_SECONDS:
                return
            before = self._changes
            found = await self._database.run(oversight.key_hashes())
            # One that is as it was stays the same object: its proofs hold.
            found = [key if (was := self._by_id.get(key.id)) != key else was for key in found]
            self._by_id = {key.id: key for key in found}
            self._by_name = {key.name: key for key in found}
            # What was asked before a change may not know of it.
            if before == self._changes:
                self._loaded_at = time.monotonic()

    # Sessions: a cookie that says which key was shown, signed; it ends with the key.

    async def open_session(self, principal: Principal) -> str:
        """The value of a session cookie."""
        claims = {"key": principal.key_id, "until": int(time.time()) + SESSION_SECONDS}
        body = _b64(json.dumps(claims).encode())
        return f"{body}.{_b64(await self.sign(body))}"

    async def session(self, cookie: str | None) -> Principal | None:
        """The holder of a session; None if there is none, or no longer."""
        body, dot, signature = (cookie or "").partition(".")
        if not dot:
            return None
        await self._load()
        try:
            if not hmac.compare_digest(_unb64(signature), await self.sign(body)):
                return None
            claims = json.loads(_unb64(body))
        except ValueError:
            return None
        key = self._by_id.get(claims["key"])
        if key is None or not _is_live(key) or claims["until"] < time.time():
            return None
        return Principal(key.id, key.name, key.grants)

    async def sign(self, body: str) -> bytes:
        """With the secret that all servers on this database share."""
        if self._secret is None:
            proposed = server_secret(secrets.token_bytes(32))
            self._secret = await self._database.run(proposed)
        return hmac.digest(self._secret, body.encode(), hashlib.sha256)


def _credentials(authorization: str) -> tuple[str | None, str | None]:
    """(user, secret); the user is None for Bearer, the secret None if it cannot be read."""
    kind, _, rest = authorization.strip().partition(" ")
    if kind.lower() == "bearer":
        return None, rest.strip()
    if kind.lower() != "basic":
        return None, None
    try:
        text = base64.b64decode(rest.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None, None
    user, colon, secret = text.partition(":")
    return (user, secret) if colon else (None, None)


def _is_live(key: KeyHash) -> bool:
    return key.expires_at is None or key.expires_at > datetime.now(UTC)


_made_decoy: list[str] = []


def _decoy() -> str:
    if not _made_decoy:
        _made_decoy.append(hash_secret(secrets.token_urlsafe(32)))
    return _made_decoy[0]


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
