"""Keys that callers make, see and revoke: never with more than the caller has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from penstock.commands import read
from penstock.errors import ApiKeyNotFoundError, InvalidValueError
from penstock.model.access import ApiKey, parse_grants
from penstock.server.auth.api_keys import NewKey, new_key
from penstock.server.auth.principal import Principal
from penstock.server.database import Database


def make_key(
    principal: Principal, name: str, scopes: Sequence[str], lifetime: timedelta | None
) -> NewKey:
    """A key within the caller's scopes, which ends no later than the caller's key."""
    require_scopes(principal, name, scopes)
    ends = [] if lifetime is None else [datetime.now(UTC) + lifetime]
    if principal.expires_at is not None:
        ends.append(principal.expires_at)
    until = min(ends) if ends else None
    return new_key(name, scopes, created_by=principal.name, expires_at=until)


def require_scopes(principal: Principal, name: str, scopes: Sequence[str]) -> None:
    try:
        grants = parse_grants(scopes)
    except ValueError as error:
        raise InvalidValueError(str(error), field="scopes", value=list(scopes)) from None
    principal.require_includes(f"key {name!r}", grants)


def only_managed(principal: Principal, keys: Sequence[ApiKey]) -> list[ApiKey]:
    """Keys with scopes that the caller has, newest first."""
    return [key for key in reversed(keys) if principal.includes(key.grants)]


async def managed_key(database: Database, principal: Principal, wanted: str) -> ApiKey:
    """The valid key with this name or id.

    One key may have the id of another as its name. The caller must have the scopes of both.
    """
    found = [key for key in await database.run(read.keys()) if wanted in (key.id, key.name)]
    if not found:
        raise ApiKeyNotFoundError(
            f"there is no valid API key {wanted!r}", hint="GET /api/keys lists the keys."
        )
    for key in found:
        principal.require_includes(f"key {wanted!r}", key.grants)
    return found[0]
