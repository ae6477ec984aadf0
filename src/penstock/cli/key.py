"""`penstock key`: the API keys of the HTTP server."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import Any

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.parameters import duration
from penstock.cli.screen import Screen
from penstock.cli.session import Session, pass_session, yes_option
from penstock.commands import read
from penstock.commands.write.keys import record_activity, revoke_key, set_key
from penstock.model.access import ApiKey
from penstock.server.auth.api_keys import NewKey, checked_grants, new_key


@click.group(cls=Verbs)
def key() -> None:
    """Create, list, change and revoke API keys of the HTTP server."""


@key.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    metavar="SCOPE[:PATTERN]",
    help="Grant read, enqueue, consume, operate or admin, on all queues or on a pattern.",
)
@click.option("--expires-in", metavar="DURATION", help="Let the key expire. Default: never.")
@pass_session
def create(session: Session, name: str, scopes: tuple[str, ...], expires_in: str | None) -> None:
    """Create key NAME and print its secret, which is never shown again.

    Repeat --scope for several scopes: `--scope read --scope enqueue:orders-*`.
    """
    until = _until(expires_in)
    made = new_key(name, scopes, created_by=getpass.getuser(), expires_at=until)
    session.run(made.command)
    session.run(record_activity(getpass.getuser(), "create key", name))
    document = {"id": made.id, "name": name, "key": made.token, "scopes": list(scopes)}
    session.show({**document, "expires_at": until}, lambda screen: _show_new(screen, made))


def _until(expires_in: str | None) -> datetime | None:
    return None if expires_in is None else datetime.now(UTC) + duration(expires_in)


def _show_new(screen: Screen, made: NewKey) -> None:
    screen.line(made.token)
    screen.err.print("Keep it: it is not shown again.")


@key.command("list")
@click.option("--all", "everything", is_flag=True, help="Include revoked and expired keys.")
@pass_session
def list_keys(session: Session, everything: bool) -> None:
    """List the keys, without their secrets."""
    found = session.run(read.keys(include_ended=everything))
    documents = [_document(each) for each in found]
    session.show({"keys": documents}, lambda screen: _show_keys(screen, found))


def _document(found: ApiKey) -> dict[str, object]:
    return {
        "id": found.id,
        "name": found.name,
        "scopes": [str(grant) for grant in found.grants],
        "live": found.live,
        "created_at": found.created_at,
        "created_by": found.created_by,
        "expires_at": found.expires_at,
        "last_used_at": found.last_used_at,
        "revoked_at": found.revoked_at,
        "revoked_by": found.revoked_by,
    }


def _show_keys(screen: Screen, found: list[ApiKey]) -> None:
    if not found:
        screen.line("no keys yet; create one with `penstock key create NAME --scope admin`")
        return
    columns = ["name", "id", "scopes", "live", "created_at", "expires_at", "last_used_at"]
    rows = [_document(each) | {"scopes": " ".join(map(str, each.grants))} for each in found]
    screen.table(columns, [[row[name] for name in columns] for row in rows])


@key.command("set")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE[:PATTERN]",
    help="Grant these scopes instead of the present ones.",
)
@click.option("--expires-in", metavar="DURATION", help="Let the key expire, counted from now.")
@click.option("--never-expires", is_flag=True, help="Let the key be valid until it is revoked.")
@pass_session
def set_(
    session: Session,
    name: str,
    scopes: tuple[str, ...],
    expires_in: str | None,
    never_expires: bool,
) -> None:
    """Change the scopes or the end of the key with this name or id.

    Its secret stays the same. Every server applies the change within five seconds.
    """
    if never_expires and expires_in is not None:
        raise click.UsageError("--expires-in and --never-expires exclude each other")
    settings: dict[str, Any] = {}
    if scopes:
        settings["grants"] = [str(grant) for grant in checked_grants(scopes)]
    if never_expires or expires_in is not None:
        settings["expires_at"] = _until(expires_in)
    if not settings:
        raise click.UsageError("give --scope, --expires-in or --never-expires")
    session.run(set_key(name, settings))
    changed = next(
        each
        for each in session.run(read.keys(include_ended=True))
        if name in (each.id, each.name) and each.revoked_at is None
    )
    end = None if changed.expires_at is None else changed.expires_at.isoformat(timespec="seconds")
    details = {"scopes": [str(grant) for grant in changed.grants], "expires_at": end}
    session.run(record_activity(getpass.getuser(), "set key", changed.name, details))
    session.show(_document(changed), f"key {changed.name} is changed")


@key.command()
@click.argument("name")
@yes_option
@pass_session
def revoke(session: Session, name: str, yes: bool) -> None:
    """Revoke the key with this name or id."""
    session.confirm(f"Revoke key {name}?", yes)
    session.run(revoke_key(name, revoked_by=getpass.getuser()))
    session.run(record_activity(getpass.getuser(), "revoke key", name))
    session.show({"name": name, "revoked": True}, f"key {name} is revoked")
