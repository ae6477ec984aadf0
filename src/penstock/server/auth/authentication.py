"""Authentication: API keys by Basic or Bearer, and signed sessions for the pages.

The server remembers verified credentials for the life of the key, as a keyed digest. Failures
count for the key, or for the caller's address if there is no such key. A caller with too many
failures has to wait. The right secret is always accepted, because a check takes a microsecond. So
an attacker cannot lock out the holder of a key.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import secrets
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from penstock.commands import read
from penstock.commands.write.keys import end_token, server_secret
from penstock.errors import AuthenticationError
from penstock.model.access import KeyHash
from penstock.server.auth import tokens
from penstock.server.auth.api_keys import is_slow, key_id, matches
from penstock.server.auth.key_uses import KeyUses
from penstock.server.auth.principal import Principal
from penstock.server.auth.users import Roles, User
from penstock.server.database import Database
from penstock.server.http_error import HttpError

RELOAD_SECONDS: Final = 5.0
# Wrong credentials make the server read the keys again, at most at this interval.
AGAIN_SECONDS: Final = 0.1
FAILURES_SECONDS: Final = 60.0
_REMEMBERED: Final = 10_000
_HOW: Final = "Send `Authorization: Bearer <key>`, or the key's name and the key by Basic."


class Failures:
    """How often each key or address failed within the last minute, up to the limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: dict[str, list[float]] = {}

    def add(self, who: str) -> int:
        """Count a failure. Returns the seconds to wait, or 0."""
        now = time.monotonic()
        lately = [at for at in self._times.get(who, ()) if at > now - FAILURES_SECONDS]
        if len(lately) >= self._most:
            return int(lately[0] + FAILURES_SECONDS - now) + 1
        if len(self._times) >= _REMEMBERED:
            self._forget(now)
        self._times[who] = [*lately, now]
        return 0

    def _forget(self, now: float) -> None:
        """Drop failures older than a minute, and half of the others if there are too many.

        The addresses of an IPv6 network must not fill the memory.
        """
        recent = [(w, t) for w, t in self._times.items() if t[-1] > now - FAILURES_SECONDS]
        if len(recent) >= _REMEMBERED:
            recent = sorted(recent, key=lambda each: each[1][-1])[_REMEMBERED // 2 :]
        self._times = dict(recent)


class Authenticator:
    """Recognizes the holders of keys and of sessions."""

    def __init__(self, database: Database, failures: int, roles: Roles | None = None) -> None:
        self._database = database
        self._roles = roles or {}
        self._by_id: dict[str, KeyHash] = {}
        self._by_name: dict[str, KeyHash] = {}
        # Sessions that were signed out and links that were used.
        self._ended: set[str] = set()
        self._loaded_at = -1e9
        self._changes = 0
        self._loading = asyncio.Lock()
        self._read_at = -1e9
        self._reading_again: asyncio.Task[None] | None = None
        # Proofs by keyed digest: a leak of this process's memory would not give secrets away.
        self._digest_key = secrets.token_bytes(32)
        self._proven: dict[bytes, tuple[KeyHash, Principal]] = {}
        self._hashing = asyncio.Semaphore(2)
        self._failures = Failures(failures)
        self._secret: bytes | None = None
        self.uses = KeyUses(database)

    def forget(self) -> None:
        """Read the keys again at the next call, because one has changed."""
        self._loaded_at = -1e9
        self._changes += 1

    @property
    def fresh_seconds(self) -> float:
        """How long the keys in memory may still be used."""
        return max(0.0, self._loaded_at + RELOAD_SECONDS - time.monotonic())

    def known(self, authorization: bytes) -> Principal | None:
        """The holder of known credentials, or None. `authenticate` checks unknown ones."""
        if time.monotonic() - self._loaded_at >= RELOAD_SECONDS:
            return None
        return self._proven_holder(self._digest(authorization))

    async def authenticate(self, authorization: str | None, address: str) -> Principal:
        """The holder of the credentials. AuthenticationError if there is none."""
        if authorization is None:
            raise AuthenticationError("no credentials were given", hint=_HOW)
        await self._load()
        digest = self._digest(authorization.encode("latin-1", "backslashreplace"))
        proven = self._proven_holder(digest)
        if proven is not None:
            return proven
        user, secret = credentials(authorization)
        key = self._find(user, secret)
        found = None if key is None else await self._prove(digest, key, secret)
        if found is None and key_id(secret) is not None:
            # The key may be new, or created again with the same name.
            before = key
            await self._read_again()
            key = self._find(user, secret)
            if key is not None and key is not before:
                found = await self._prove(digest, key, secret)
        if found is None:
            raise self._refusal(f"address {address}" if key is None else f"key {key.id}")
        return found

    def _refusal(self, who: str) -> Exception:
        if wait := self._failures.add(who):
            return HttpError(
                429,
                "TooManyFailures",
                "too many wrong credentials were sent, for this key or from this address",
                hint=f"Wait {wait} s, or send valid credentials.",
                headers={"Retry-After": str(wait)},
            )
        return AuthenticationError("the credentials are not valid", hint=_HOW)

    def _digest(self, authorization: bytes) -> bytes:
        return hashlib.blake2b(authorization, key=self._digest_key, digest_size=32).digest()

    def _proven_holder(self, digest: bytes) -> Principal | None:
        proven = self._proven.get(digest)
        if proven is None:
            return None
        key, principal = proven
        if self._by_id.get(key.id) is not key or not _is_live(key):
            return None
        self.uses.add(key.id)
        return principal

    async def _prove(self, digest: bytes, key: KeyHash, secret: str) -> Principal | None:
        """The holder, if the secret is right. It is remembered."""
        if not is_slow(key.secret_hash):
            right = matches(secret, key.secret_hash)
        else:
            async with self._hashing:
                # Hundreds of connections may present one key at once. It is hashed once.
                if proven := self._proven_holder(digest):
                    return proven
                right = await asyncio.to_thread(matches, secret, key.secret_hash)
        if not right:
            return None
        if len(self._proven) >= _REMEMBERED:
            self._proven.clear()
        principal = _holder_of(key)
        self.uses.add(key.id)
        self._proven[digest] = key, principal
        return principal

    def _find(self, user: str | None, secret: str) -> KeyHash | None:
        """The live key that the credentials name."""
        key = self._by_name.get(user) if user else self._by_id.get(key_id(secret) or "")
        return key if key is not None and _is_live(key) else None

    async def _load(self) -> None:
        if time.monotonic() - self._loaded_at < RELOAD_SECONDS:
            return
        async with self._loading:
            if time.monotonic() - self._loaded_at < RELOAD_SECONDS:
                return
            before = self._changes
            self._read_at = time.monotonic()
            found = await self._database.run(read.key_hashes())
            ended = await self._database.run(read.ended_tokens())
            # An unchanged key stays the same object, so its credentials stay known.
            found = [key if (was := self._by_id.get(key.id)) != key else was for key in found]
            self._by_id = {key.id: key for key in found}
            self._by_name = {key.name: key for key in found}
            # A query that began before a change may not show it.
            if before == self._changes:
                self._ended = ended
                self._loaded_at = time.monotonic()
            else:
                self._ended |= ended

    async def _read_again(self) -> None:
        """Read the keys after the start of this call. Concurrent callers share one read."""
        if self._reading_again is None:
            self._reading_again = asyncio.create_task(self._read_soon())
        await asyncio.shield(self._reading_again)

    async def _read_soon(self) -> None:
        await asyncio.sleep(self._read_at + AGAIN_SECONDS - time.monotonic())
        # Later callers need a read that begins after this moment.
        self._reading_again = None
        self.forget()
        await self._load()

    # Sessions: a signed cookie with the id of the key. It ends with the key or by signing out,
    # which every server on the database knows within RELOAD_SECONDS.

    async def open_session(self, subject: str, roles: Sequence[str] = ()) -> str:
        """The value of a session cookie, for the id of a key or for a user."""
        return await self.sign("session", subject, tokens.SESSION_SECONDS, roles)

    async def session(self, cookie: str | None, proxied: User | None = None) -> Principal | None:
        """The holder of a session, or None if the session has ended.

        `proxied` is the user whom a trusted proxy names. The session of such a user is valid with
        requests of this user only.
        """
        if not cookie:
            return None
        await self._load()
        return self._holder(await self.read_token("session", cookie), proxied)

    async def sign(
        self, kind: tokens.Kind, subject: str, seconds: int, roles: Sequence[str] = ()
    ) -> str:
        return tokens.issue(await self._signing_secret(), kind, subject, seconds, roles)

    async def read_token(self, kind: tokens.Kind, token: str) -> tokens.Claims | None:
        return tokens.read(await self._signing_secret(), kind, token)

    async def end_session(self, cookie: str | None) -> None:
        """Sign out. Copies of the cookie become invalid, too."""
        claims = tokens.read(await self._signing_secret(), "session", cookie or "")
        if claims is not None:
            await self._end(claims)

    async def use_link(self, link: str) -> Principal | None:
        """The holder of a sign-in link, or None if it has expired or was used before."""
        await self._load()
        claims = tokens.read(await self._signing_secret(), "link", link)
        holder = self._holder(claims)
        if claims is None or holder is None or not await self._end(claims):
            return None
        return holder

    def _holder(
        self, claims: tokens.Claims | None, proxied: User | None = None
    ) -> Principal | None:
        if claims is None or claims.id in self._ended:
            return None
        if claims.subject.startswith("sso:"):
            return self._user(claims.subject, claims.roles)
        if proxied is not None and claims.subject == proxied.subject:
            return self._user(proxied.subject, proxied.roles)
        key = self._by_id.get(claims.subject)
        if key is None or not _is_live(key):
            return None
        self.uses.add(key.id)
        return _holder_of(key)

    def _user(self, subject: str, roles: Iterable[str]) -> Principal | None:
        """A user with the scopes that the roles have now; None if there are none."""
        grants = tuple(
            dict.fromkeys(grant for role in roles for grant in self._roles.get(role, ()))
        )
        return Principal(subject, subject, grants) if grants else None

    async def _end(self, claims: tokens.Claims) -> bool:
        """Whether this was the first time."""
        first = await self._database.run(end_token(claims.id))
        self._changes += 1
        self._ended.add(claims.id)
        return first

    async def csrf_token(self, cookie: str) -> str:
        """The token in the forms of a session."""
        return tokens.sign(await self._signing_secret(), "csrf", cookie).hex()

    async def _signing_secret(self) -> bytes:
        """All servers on this database share it."""
        if self._secret is None:
            proposed = server_secret(secrets.token_bytes(32))
            self._secret = await self._database.run(proposed)
        return self._secret


def credentials(authorization: str) -> tuple[str | None, str]:
    """(user, secret). The user is None for Bearer. The secret is empty if it cannot be read."""
    kind, _, rest = authorization.strip().partition(" ")
    if kind.lower() == "bearer":
        return None, rest.strip()
    if kind.lower() != "basic":
        return None, ""
    try:
        text = base64.b64decode(rest.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None, ""
    user, colon, secret = text.partition(":")
    return (user, secret) if colon else (None, "")


def _holder_of(key: KeyHash) -> Principal:
    return Principal(key.id, key.name, key.grants, key.expires_at)


def _is_live(key: KeyHash) -> bool:
    return key.expires_at is None or key.expires_at > datetime.now(UTC)
