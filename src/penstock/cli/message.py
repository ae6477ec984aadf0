"""`penstock message`: find messages, read their story, and move them."""

from __future__ import annotations

from typing import Any, get_args

import click

from penstock.cli.commands import Verbs
from penstock.cli.documents import message_document
from penstock.cli.parameters import duration
from penstock.cli.screen import Screen, shorten
from penstock.cli.session import Session, pass_session, yes_option
from penstock.message import Message, State

STATES = get_args(State)
LIST_COLUMNS = ["id", "queue", "state", "attempt", "priority", "key", "enqueued_at"]


@click.group(cls=Verbs)
def message() -> None:
    """List, read, cancel, redrive and replay messages."""


@message.command()
@click.argument("message_id", metavar="ID", type=int)
@pass_session
def show(session: Session, message_id: int) -> None:
    """Tell the story of a message, waiting or finished, with its attempts."""
    with session.client() as client:
        found = client.message(message_id)
    session.show(message_document(found), lambda screen: _show_message(screen, found))


@message.command("list")
@click.option("--queue", help="Only of this queue.")
@click.option("--state", type=click.Choice(STATES), help="Only in this state.")
@click.option("--key", help="Only with this key.")
@click.option("--error-like", help="Only whose last error matches this LIKE pattern.")
@click.option("--after", type=int, metavar="ID", help="Only behind this message: the next page.")
@click.option("--limit", type=int, default=100, show_default=True, help="How many at most.")
@pass_session
def list_messages(session: Session, /, **filters: Any) -> None:
    """List messages by id, a page at a time.

    Without --state those that wait, are in work or are dead; with a state
    that is an end, such as done, those in history.
    """
    with session.client() as client:
        found = client.messages(**filters)
    session.show(
        {"messages": [message_document(m) for m in found]}, lambda screen: _show_list(screen, found)
    )


@message.command()
@click.argument("message_id", metavar="ID", type=int)
@pass_session
def cancel(session: Session, message_id: int) -> None:
    """Take a message out of its queue, even one that is in work."""
    with session.client() as client:
        was = client.cancel(message_id)
    session.show(
        {"id": message_id, "state": "cancelled", "was": was},
        f"message {message_id} is cancelled; it was {was}",
    )


@message.command()
@click.argument("queue")
@click.option("--id", "ids", type=int, multiple=True, help="This one; may be given often.")
@click.option("--error-like", help="Those whose last error matches this LIKE pattern.")
@click.option("--older-than", type=duration, help="Those that died longer ago than this.")
@click.option("--id-from", type=int, help="Those from this id on.")
@click.option("--id-to", type=int, help="Those up to this id.")
@click.option("--max-count", type=int, help="No more than this many.")
@click.option("--per-second", type=float, help="Spread them out: so many a second.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@yes_option
@pass_session
def redrive(
    session: Session, /, queue: str, ids: tuple[int, ...], dry_run: bool, yes: bool, **filters: Any
) -> None:
    """Put dead letters back into QUEUE.

    Their attempts are counted anew. Options narrow it down together; without
    any, it is every dead letter of the queue.
    """
    chosen: dict[str, Any] = {**filters, "ids": list(ids) or None}
    with session.client() as client:
        if not dry_run and not any(value is not None for value in chosen.values()):
            count = client.redrive(queue, dry_run=True)
            session.confirm(f"Redrive all {count} dead letters of queue {queue}?", yes)
        count = client.redrive(queue, **chosen, dry_run=dry_run)
    verb = "would go" if dry_run else "went"
    session.show(
        {"queue": queue, "count": count, "dry_run": dry_run},
        f"{count} dead letters {verb} back to {queue}",
    )


@message.command()
@click.argument("message_id", metavar="ID", type=int)
@click.option("--queue", help="Into this queue instead of its own.")
@pass_session
def replay(session: Session, message_id: int, queue: str | None) -> None:
    """Enqueue a copy of a finished message; it gets an id of its own."""
    with session.client() as client:
        copy = client.replay(message_id, queue)
    session.show({"id": copy, "copy_of": message_id}, f"message {copy} is a copy of {message_id}")


def _show_list(screen: Screen, found: list[Message]) -> None:
    if not found:
        screen.line("no messages")
        return
    rows = [[*(getattr(m, name) for name in LIST_COLUMNS), _brief(screen, m)] for m in found]
    screen.table([*LIST_COLUMNS, "payload"], rows)
    if screen.interactive:
        screen.line(f"more: --after {found[-1].id}")


def _brief(screen: Screen, message: Message) -> Any:
    return shorten(message.payload, 40) if screen.interactive else message.payload


def _show_message(screen: Screen, message: Message) -> None:
    """Empty fields are left out: the story is what happened."""
    document = message_document(message)
    attempts = document.pop("attempts")
    screen.fields({name: v for name, v in document.items() if v is not None or name == "payload"})
    if attempts:
        columns = ["attempt", "worker", "started_at", "ended_at", "error"]
        screen.table(columns, [[getattr(a, name) for name in columns] for a in attempts])
