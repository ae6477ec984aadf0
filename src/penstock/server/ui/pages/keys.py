"""API keys: their scopes and last uses. Keys are created, changed and revoked here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from penstock.commands import read
from penstock.commands.write.keys import revoke_key
from penstock.model.access import ApiKey
from penstock.server.auth.key_management import (
    change_key,
    make_key,
    managed_key,
    only_managed,
    require_scopes,
)
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.formats import ago, moment
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
LIFETIMES: Final = {
    "90": "90 days",
    "1": "1 day",
    "7": "7 days",
    "30": "30 days",
    "365": "1 year",
    "never": "never",
}


@pages("/keys")
async def keys(visit: Visit) -> View:
    ended = visit.asked_one("ended", ("no", "yes")) == "yes"
    found = await visit.run(read.keys(include_ended=ended))
    data = {"ended": ended, "keys": [_row(key) for key in only_managed(visit.principal, found)]}
    return View("keys.html", "Keys", data)


def _row(key: ApiKey) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(key, name) for name in ApiKey.__slots__}
    return {**fields, "grants": [str(grant) for grant in key.grants]}


class CreateKey(Act):
    path = "/keys/create"

    async def ask(self, visit: Visit) -> Question:
        scopes = _scopes(visit)
        require_scopes(visit.principal, visit.asked("name") or "", scopes)
        own = " ".join(str(grant) for grant in visit.principal.grants)
        return Question(
            title="Create an API key",
            button="Create",
            back="/keys",
            text=[
                "The key is shown once, on the next page.",
                f"It can have any scopes within your own: {own}",
            ],
            fields=[
                Field(
                    name="name",
                    label="Name",
                    value=visit.asked("name") or "",
                    required=True,
                    hint="1 to 64 letters, digits and . _ @ -",
                ),
                _scopes_field(scopes),
                Field(
                    name="expires",
                    label="Expires after",
                    kind="select",
                    value=visit.asked_one("expires", tuple(LIFETIMES)),
                    options=sorted(LIFETIMES.items(), key=_by_length),
                ),
            ],
        )

    async def do(self, visit: Visit) -> Deed:
        days = visit.asked_one("expires", tuple(LIFETIMES))
        name = visit.asked("name") or ""
        made = make_key(visit.principal, name, _scopes(visit), _lifetime(days))
        return Deed(
            command=made.command,
            act="create key",
            target=made.name,
            to="/keys",
            details={"scopes": made.scopes},
            after=visit.context.auth.forget,
            shows=View("key_created.html", "Key created", {"made": made}),
        )


def _scopes_field(scopes: Sequence[str]) -> Field:
    return Field(
        name="scopes",
        label="Scopes",
        value=" ".join(scopes),
        required=True,
        hint="read, enqueue, consume, operate or admin; enqueue:orders-* for a pattern",
    )


def _by_length(option: tuple[str, str]) -> float:
    return float("inf") if option[0] == "never" else int(option[0])


def _scopes(visit: Visit) -> list[str]:
    """Names separated by spaces or commas."""
    return (visit.asked("scopes") or "").replace(",", " ").split()


class EditKey(Act):
    path = "/keys/{key}/edit"

    async def ask(self, visit: Visit) -> Question:
        found = await managed_key(visit.context.database, visit.principal, visit.path["key"])
        scopes = _scopes(visit) or [str(grant) for grant in found.grants]
        own = " ".join(str(grant) for grant in visit.principal.grants)
        before = "never" if found.expires_at is None else moment(found.expires_at)
        return Question(
            title=f"Change API key {found.name}",
            button="Change",
            back="/keys",
            text=[
                "Every server applies the change within five seconds.",
                f"The key can have any scopes within your own: {own}",
            ],
            fields=[
                _scopes_field(scopes),
                Field(
                    name="expires",
                    label="Expires after",
                    kind="select",
                    value=visit.asked_one("expires", ("kept", *LIFETIMES)),
                    options=[
                        ("kept", f"as before: {before}"),
                        *sorted(LIFETIMES.items(), key=_by_length),
                    ],
                ),
            ],
        )

    async def do(self, visit: Visit) -> Deed:
        found = await managed_key(visit.context.database, visit.principal, visit.path["key"])
        days = visit.asked_one("expires", ("kept", *LIFETIMES))
        change = change_key(
            visit.principal,
            found,
            _scopes(visit),
            "kept" if days == "kept" else _lifetime(days),
        )
        return Deed(
            command=change.command,
            act="set key",
            target=found.name,
            to="/keys",
            details=change.details,
            after=visit.context.auth.forget,
        )


def _lifetime(days: str) -> timedelta | None:
    return None if days == "never" else timedelta(days=int(days))


class RevokeKey(Act):
    path = "/keys/{key}/revoke"

    async def ask(self, visit: Visit) -> Question:
        found = await managed_key(visit.context.database, visit.principal, visit.path["key"])
        used = "never" if found.last_used_at is None else ago(found.last_used_at)
        return Question(
            title=f"Revoke API key {found.name}",
            button="Revoke",
            back="/keys",
            text=["Every server refuses it within five seconds. Its sessions end too."],
            facts={
                "Scopes": " ".join(str(grant) for grant in found.grants),
                "Created": f"{moment(found.created_at)} by {found.created_by or '-'}",
                "Last used": used,
            },
            danger=True,
        )

    async def do(self, visit: Visit) -> Deed:
        wanted = visit.path["key"]
        found = await managed_key(visit.context.database, visit.principal, wanted)
        return Deed(
            command=revoke_key(wanted, revoked_by=visit.principal.name),
            act="revoke key",
            target=found.name,
            to="/keys",
            after=visit.context.auth.forget,
        )


ACTS: Final = (CreateKey(), EditKey(), RevokeKey())
