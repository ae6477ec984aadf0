"""`penstock message`: find, read, cancel, redrive, replay and move messages."""

from __future__ import annotations

from typing import Any, get_args

import click

from penstock.cli.bulk import bulk
from penstock.cli.command_classes import Verbs
from penstock.cli.json_documents import message_document
from penstock.cli.parameters import duration
from penstock.cli.screen import Screen, shorten
from penstock.cli.session import Session, pass_session, yes_option
from penstock.model.message import Message, State

STATES = get_args(State)
LIST_COLUMNS = ["id", "queue", "state", "attempt", "priority", "key", "enqueued_at"]


@click.group(cls=Verbs)
def message() -> None:
    """List, read, cancel, redrive, replay and move messages."""


@message.command()
@click.argument("message_id", metavar="ID", type=int)
@pass_session
def show(session: Session, message_id: int) -> None:
    """Show a message, waiting or finished, with its attempts."""
    with session.client() as client:
        found = client.message(message_id)
    session.show(message_document(found), lambda screen: _show_message(screen, found))


@message.command("list")
@click.option("--queue", help="List only messages of this queue.")
@click.option("--state", type=click.Choice(STATES), help="List only messages in this state.")
@click.option("--key", help="List only messages with this key.")
@click.option("--error-like", help="Match the last error with LIKE.")
@click.option("--after", type=int, metavar="ID", help="Start after this message.")
@click.option("--limit", type=int, default=100, show_default=True, help="List at most this many.")
@pass_session
def list_messages(session: Session, /, **filters: Any) -> None:
    """List messages in order of id, one page at a time.

    Without --state, it lists unfinished messages. With a final state such as
    done, it lists messages in history.
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
    """Cancel a message that is waiting, leased or dead."""
    with session.client() as client:
        was = client.cancel(message_id)
    session.show(
        {"id": message_id, "state": "cancelled", "was": was},
        f"cancelled message {message_id}, which was {was}",
    )


@message.command()
@click.argument("queue")
@click.option("--id", "ids", type=int, multiple=True, help="Redrive this message. Repeatable.")
@click.option("--error-like", help="Match the last error with LIKE.")
@click.option(
    "--older-than", type=duration, help="Redrive only those that died longer ago than this."
)
@click.option("--id-from", type=int, help="Redrive this id and higher ones.")
@click.option("--id-to", type=int, help="Redrive this id and lower ones.")
@click.option("--max-count", type=int, help="Redrive at most this many.")
@click.option("--per-second", type=float, help="Redrive this many each second.")
@click.option("--dry-run", is_flag=True, help="Count them, and change nothing.")
@yes_option
@pass_session
def redrive(
    session: Session, /, queue: str, ids: tuple[int, ...], dry_run: bool, yes: bool, **filters: Any
) -> None:
    """Put dead letters back into QUEUE.

    Their attempts start again at 0. A dead letter must match all given
    options. Without options, all dead letters of the queue are redriven.
    """
    chosen: dict[str, Any] = {**filters, "ids": list(ids) or None}
    with session.client() as client:
        if not dry_run and not any(value is not None for value in chosen.values()):
            count = client.redrive(queue, dry_run=True)
            session.confirm(f"Redrive all {count} dead letters of queue {queue}?", yes)
        count = client.redrive(queue, **chosen, dry_run=dry_run)
    verb = "Would redrive" if dry_run else "Redrove"
    session.show(
        {"queue": queue, "count": count, "dry_run": dry_run},
        f"{verb} {count} dead letter{'' if count == 1 else 's'} of queue {queue}",
    )


@message.command()
@click.argument("message_id", metavar="ID", type=int)
@click.option("--queue", help="Enqueue the copy here. Default: its own queue.")
@pass_session
def replay(session: Session, message_id: int, queue: str | None) -> None:
    """Enqueue a copy of a finished message, with a new id."""
    with session.client() as client:
        copy = client.replay(message_id, queue)
    session.show({"id": copy, "copy_of": message_id}, f"message {copy} is a copy of {message_id}")


@message.command()
@click.argument("queue")
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@pass_session
def move(session: Session, queue: str, ids: tuple[int, ...]) -> None:
    """Put waiting messages and dead letters into QUEUE.

    They keep their ids. Leased and finished messages are skipped.
    """
    with session.client() as client:
        count = client.move(list(ids), queue)
    session.show({"queue": queue, "count": count}, f"moved {count} of {len(ids)} into {queue}")


@message.command("set-priority")
@click.argument("priority", type=click.IntRange(-9, 9))
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@pass_session
def set_priority(session: Session, priority: int, ids: tuple[int, ...]) -> None:
    """Set the priority of waiting messages.

    Write a negative priority after --, as in `set-priority -- -5 123`.
    """
    with session.client() as client:
        count = client.set_priority(list(ids), priority)
    session.show({"priority": priority, "count": count}, f"changed {count} of {len(ids)}")


message.add_command(bulk)


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
    """Empty fields are left out."""
    document = message_document(message)
    attempts = document.pop("attempts")
    screen.fields({name: v for name, v in document.items() if v is not None or name == "payload"})
    if attempts:
        columns = ["attempt", "worker", "started_at", "ended_at", "error"]
        screen.table(columns, [[getattr(a, name) for name in columns] for a in attempts])
