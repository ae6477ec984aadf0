"""Keys that callers make, see, change and revoke: never with more than the caller has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from penstock.commands import read
from penstock.commands.command import Command
from penstock.commands.write.keys import set_key
from penstock.errors import ApiKeyNotFoundError, InvalidValueError
from penstock.model.access import ApiKey, parse_grants
from penstock.server.auth.api_keys import NewKey, checked_grants, new_key
from penstock.server.auth.principal import Principal
from penstock.server.database import Database


def make_key(
    principal: Principal, name: str, scopes: Sequence[str], lifetime: timedelta | None
) -> NewKey:
    """A key within the caller's scopes, which ends no later than the caller's key."""
    require_scopes(principal, name, scopes)
    until = _end(principal, None if lifetime is None else datetime.now(UTC) + lifetime)
    return new_key(name, scopes, created_by=principal.name, expires_at=until)


@dataclass(frozen=True, slots=True)
class KeyChange:
    """The command that changes a key, and the settings after it, for the record."""

    command: Command[None]
    details: Mapping[str, Any]


def change_key(
    principal: Principal,
    key: ApiKey,
    scopes: Sequence[str] | None,
    lifetime: timedelta | Literal["kept"] | None,
) -> KeyChange:
    """A change within the caller's scopes. Without `scopes` they are kept.

    A key that gains a scope ends no later than the caller's key, like a new one.
    """
    settings: dict[str, Any] = {}
    until = key.expires_at
    if scopes is not None:
        grants = checked_grants(scopes)
        principal.require_includes(f"key {key.name!r}", grants)
        settings["grants"] = [str(grant) for grant in grants]
        if not replace(principal, grants=key.grants).includes(grants):
            until = _end(principal, until)
    if lifetime != "kept":
        until = _end(principal, None if lifetime is None else datetime.now(UTC) + lifetime)
    if until != key.expires_at:
        settings["expires_at"] = until
    return KeyChange(
        set_key(key.id, settings),
        {
            "scopes": settings.get("grants", [str(grant) for grant in key.grants]),
            "expires_at": None if until is None else until.isoformat(timespec="seconds"),
        },
    )


def _end(principal: Principal, wanted: datetime | None) -> datetime | None:
    """No later than the caller's key ends."""
    ends = [end for end in (wanted, principal.expires_at) if end is not None]
    return min(ends, default=None)


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
