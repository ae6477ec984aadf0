"""`penstock demo`: removes the queues and data of `penstock up --demo`."""

from __future__ import annotations

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.session import Session, pass_session, yes_option
from penstock.cli.up_demo import check_embedded
from penstock.demo.installation import Removed, existing
from penstock.demo.installation import remove as remove_demo


@click.group(cls=Verbs)
def demo() -> None:
    """Remove what `penstock up --demo` created."""


@demo.command()
@yes_option
@pass_session
def remove(session: Session, yes: bool) -> None:
    """Drop the queues and schedules of the demo, and their history.

    Queues that the demo did not create stay, even if their names are similar.
    """
    settings = session.settings()
    check_embedded(settings)
    with session.client() as client:
        found = existing(client, settings.home)
        if found.queues or found.schedules:
            session.confirm(f"Drop {', '.join(found.queues + found.schedules)}?", yes)
        removed = remove_demo(client, settings.home)
    session.show(removed, _text(removed))


def _text(removed: Removed) -> str:
    if not removed.queues and not removed.schedules:
        return "There is no demo in this database."
    counts = (
        f"Dropped {len(removed.queues)} queues with {removed.messages} messages "
        f"and {len(removed.schedules)} schedules."
    )
    if removed.history:
        return f"{counts} Their history is deleted."
    return f"{counts} Their history stays until it is too old, because a lake may have it."
