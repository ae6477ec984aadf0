"""API keys: admins create, list, change and revoke them, within their own scopes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.commands import read
from penstock.commands.write.keys import revoke_key
from penstock.model.access import ApiKey
from penstock.server.auth import key_management
from penstock.server.auth.key_management import make_key, managed_key, only_managed
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("keys")
KeyName = Annotated[
    str, Meta(pattern="^[A-Za-z0-9._@-]{1,64}$", description="1 to 64 letters, digits and . _ @ -")
]
ScopeText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="a scope, for all topics or with a pattern, such as enqueue:orders-*",
        extra_json_schema={
            "pattern": "^(read|enqueue|consume|operate|admin)(:[a-z0-9._*?-]+)?$",
            "examples": ["read", "enqueue:orders-*"],
        },
    ),
]
Lifetime = Annotated[
    int, Meta(ge=1, le=315_360_000, description="seconds until the key expires; never unless given")
]


class CreateKey(Struct, forbid_unknown_fields=True, kw_only=True):
    """A key to create."""

    name: KeyName
    scopes: Annotated[list[ScopeText], Meta(min_length=1, max_length=100)]
    expires_in_seconds: Lifetime | None = None


class ChangeKey(Struct, forbid_unknown_fields=True, kw_only=True):
    """The settings to change. `expires_in_seconds` counts from now; null: it does not expire."""

    scopes: Annotated[list[ScopeText], Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    expires_in_seconds: Lifetime | UnsetType | None = UNSET


class Key(Struct, kw_only=True):
    """A key, without its secret. `last_used_at` is exact to five minutes."""

    id: str
    name: str
    scopes: list[str]
    live: bool
    created_at: datetime
    created_by: str | None
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    last_used_at: datetime | None


class CreatedKey(Struct, kw_only=True):
    """A new key. `key` is its secret, which is never shown again."""

    id: str
    name: str
    scopes: list[str]
    key: str
    expires_at: datetime | None


class Keys(Struct):
    items: list[Key]
    next: str | None = None


class FindKeys(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which keys to list."""

    ended: bool = False


@endpoint("GET", "/api/keys", query=FindKeys, answers={200: Keys})
async def list_keys(call: Call) -> Keys:
    """The keys whose scopes the caller has, newest first. `ended` adds revoked and expired ones."""
    found = await call.run(read.keys(include_ended=call.query.ended))
    return Keys([_document(each) for each in only_managed(call.principal, found)])


@endpoint("POST", "/api/keys", body=CreateKey, answers={201: CreatedKey}, problems=(409,),
          is_secret=True)  # fmt: skip
async def create_key(call: Call) -> CreatedKey:
    """Make a key within the caller's scopes. Its secret is in this answer only.

    A key ends no later than the key that made it.
    """
    body: CreateKey = call.body
    seconds = body.expires_in_seconds
    lifetime = None if seconds is None else timedelta(seconds=seconds)
    made = make_key(call.principal, body.name, body.scopes, lifetime)
    await call.act(made.command, "create key", body.name, scopes=made.scopes)
    call.context.auth.forget()
    return CreatedKey(
        id=made.id,
        name=made.name,
        scopes=made.scopes,
        key=made.token,
        expires_at=made.expires_at,
    )


@endpoint("GET", "/api/keys/{key}", answers={200: Key}, problems=(404,))
async def show_key(call: Call) -> Key:
    """One valid key, by its name or id."""
    return _document(await managed_key(call.context.database, call.principal, call.path["key"]))


@endpoint("PATCH", "/api/keys/{key}", body=ChangeKey, answers={200: Key}, problems=(404,))
async def change_key(call: Call) -> Key:
    """Change the scopes of a key or when it expires, within the caller's scopes.

    Every server applies it within five seconds. A key that gets a new scope ends no later than the
    key of the caller.
    """
    body: ChangeKey = call.body
    found = await managed_key(call.context.database, call.principal, call.path["key"])
    seconds = body.expires_in_seconds
    change = key_management.change_key(
        call.principal,
        found,
        None if body.scopes is UNSET else body.scopes,
        "kept" if seconds is UNSET else None if seconds is None else timedelta(seconds=seconds),
    )
    await call.act(change.command, "set key", found.name, **change.details)
    call.context.auth.forget()
    return _document(await managed_key(call.context.database, call.principal, found.id))


@endpoint("DELETE", "/api/keys/{key}", answers={200: Key}, problems=(404,))
async def delete_key(call: Call) -> Key:
    """Revoke a key, by its name or id: it is refused within five seconds by every server."""
    wanted = call.path["key"]
    found = await managed_key(call.context.database, call.principal, wanted)
    command = revoke_key(wanted, revoked_by=call.principal.name)
    await call.act(command, "revoke key", found.name)
    call.context.auth.forget()
    ended = await call.run(read.keys(include_ended=True))
    return next(_document(each) for each in ended if each.id == found.id)


def _document(found: ApiKey) -> Key:
    return Key(
        id=found.id,
        name=found.name,
        scopes=[str(grant) for grant in found.grants],
        live=found.live,
        created_at=found.created_at,
        created_by=found.created_by,
        expires_at=found.expires_at,
        revoked_at=found.revoked_at,
        revoked_by=found.revoked_by,
        last_used_at=found.last_used_at,
    )
