"""API keys, ended sessions and the activity log."""

from __future__ import annotations

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, utc, utc_row
from penstock.commands.payload import decode_json
from penstock.commands.read.paging import page_size
from penstock.model.access import Activity, ApiKey, KeyHash, parse_grants
from penstock.sql.loader import load_query


def keys(*, include_ended: bool = False) -> Command[list[ApiKey]]:
    """The API keys of the HTTP server: the valid ones, or all."""

    def decode(rows: Rows) -> list[ApiKey]:
        return [
            ApiKey(id, name, parse_grants(grants), *rest)
            for id, name, grants, *rest in map(utc_row, rows)
        ]

    return Command(
        load_query("read/keys"), {"all": check.truth("include_ended", include_ended)}, decode
    )


def key_hashes() -> Command[list[KeyHash]]:
    """The data by which the server recognizes the holders of keys."""

    def decode(rows: Rows) -> list[KeyHash]:
        return [
            KeyHash(id, name, secret_hash, parse_grants(grants), utc(expires_at))
            for id, name, secret_hash, grants, expires_at in rows
        ]

    return Command(load_query("read/key_hashes"), {}, decode)


def ended_tokens() -> Command[set[str]]:
    """The ids of sessions and sign-in links that were ended recently."""
    return Command(load_query("read/ended_tokens"), {}, lambda rows: {row[0] for row in rows})


def activity(
    *,
    actor: str | None = None,
    target: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> Command[list[Activity]]:
    """The actions of operators, newest first. The next page is `before` the last id of this one."""
    params = {
        "actor": check.optional_text("actor", actor),
        "target": check.optional_text("target", target),
        "before": check.optional_whole("before", before, check.INT8),
        "limit": page_size(limit),
    }
    return Command(load_query("read/activity"), params, _activity)


def message_activity(id: int, *, limit: int = 100) -> Command[list[Activity]]:
    """The actions of operators on one message, oldest first."""
    params = {"message": str(check.whole("id", id)), "limit": page_size(limit)}
    return Command(load_query("read/message_activity"), params, _activity)


def _activity(rows: Rows) -> list[Activity]:
    return [
        Activity(id, utc(at), actor, act, target, decode_json(details) or {}, *rest)
        for id, at, actor, act, target, details, *rest in rows
    ]
