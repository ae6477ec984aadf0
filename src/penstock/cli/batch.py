"""`penstock batch`: batches and their progress."""

from __future__ import annotations

import dataclasses

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.screen import Screen
from penstock.cli.session import Session, pass_session, yes_option
from penstock.commands.read.batch_queries import batches
from penstock.commands.write.batches import cancel_batch, get_batch
from penstock.model.batch import BatchProgress

COLUMNS = ("id", "name", "state", "total", "pending", "done", "dead", "expired", "cancelled")


@click.group(cls=Verbs)
def batch() -> None:
    """List, show and cancel batches."""


@batch.command("list")
@click.option("-n", "--count", type=int, default=20, show_default=True, help="Show this many.")
@pass_session
def list_batches(session: Session, count: int) -> None:
    """List the newest batches, and how many of their members have ended."""
    with session.client() as client:
        found = client.run(batches(count))
    session.show({"batches": found}, lambda screen: _show_batches(screen, found))


def _show_batches(screen: Screen, found: list[BatchProgress]) -> None:
    if not found:
        screen.line("no batches")
        return
    screen.table(COLUMNS, [[getattr(each, name) for name in COLUMNS] for each in found])


@batch.command()
@click.argument("id", type=int)
@pass_session
def show(session: Session, id: int) -> None:
    """Show batch ID: how many members have ended, and how."""
    with session.client() as client:
        found = client.run(get_batch(id))
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    session.show(found, lambda screen: screen.fields(fields))


@batch.command()
@click.argument("id", type=int)
@yes_option
@pass_session
def cancel(session: Session, id: int, yes: bool) -> None:
    """Cancel the members of batch ID that have not ended. The batch finishes then."""
    with session.client() as client:
        pending = client.run(get_batch(id)).pending
        session.confirm(f"Cancel {pending} members of batch {id}?", yes)
        cancelled, more = 0, True
        while more:
            found = client.run(cancel_batch(id))
            cancelled += found.members
            more = found.more and found.members > 0
    session.show({"batch": id, "cancelled": cancelled}, f"{cancelled} members are cancelled")
