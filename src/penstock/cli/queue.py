"""`penstock queue`: queues, their settings and their contents."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.json_documents import queue_document
from penstock.cli.pausing import add_pause_and_resume
from penstock.cli.queue_settings import parse_settings
from penstock.cli.screen import Screen, duration
from penstock.cli.session import Session, pass_session, yes_option
from penstock.client import Client
from penstock.model.queue import Queue, QueueStats


@click.group(cls=Verbs)
def queue() -> None:
    """List, create, change and empty queues."""


@queue.command("list")
@pass_session
def list_queues(session: Session) -> None:
    """List the queues with their settings."""
    with session.client() as client:
        queues = client.queues()
    session.show({"queues": [queue_document(q) for q in queues]}, lambda s: _show_queues(s, queues))


def _show_queues(screen: Screen, queues: list[Queue]) -> None:
    if not queues:
        screen.line("no queues yet; create one with `penstock queue create NAME`")
        return
    columns = ["name", "paused", "lease_seconds", "max_attempts", "max_depth", "keep_history"]
    rows = [[queue_document(found)[name] for name in columns] for found in queues]
    screen.table(columns, rows)


@queue.command()
@click.argument("name")
@click.argument("settings", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--exist-ok", is_flag=True, help="Do not fail if the queue exists.")
@pass_session
def create(session: Session, name: str, settings: tuple[str, ...], exist_ok: bool) -> None:
    """Create queue NAME, with settings that differ from the defaults."""
    chosen = parse_settings(settings)
    with session.client() as client:
        created = client.create_queue(name, exist_ok=exist_ok, **chosen)
    text = f"created queue {name}" if created else f"queue {name} already exists"
    session.show({"queue": name, "created": created}, text)


@queue.command("set")
@click.argument("name")
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, required=True)
@pass_session
def set_queue(session: Session, name: str, settings: tuple[str, ...]) -> None:
    """Change settings of queue NAME. `key=default` resets one."""
    chosen = parse_settings(settings)
    with session.client() as client:
        client.set_queue(name, **chosen)
        changed = client.queue(name)
    session.show(queue_document(changed), lambda screen: screen.fields(queue_document(changed)))


add_pause_and_resume(
    queue,
    Client.pause,
    Client.resume,
    pause_help="Stop delivering messages of queue NAME. It still accepts messages.",
    resume_help="Deliver messages of queue NAME again.",
)


@queue.command()
@click.argument("name")
@click.option("--include-leased", is_flag=True, help="Delete leased messages too.")
@yes_option
@pass_session
def purge(session: Session, name: str, include_leased: bool, yes: bool) -> None:
    """Delete the waiting messages of queue NAME.

    NAME.dlq stands for its dead letters.
    """
    with session.client() as client:
        found = client.stats(name)
        waiting = found.ready + found.scheduled + (found.leased if include_leased else 0)
        question = f"Delete {_about(found)}{waiting} messages of queue {name}?"
        session.confirm(question, yes, name=name)
        count = client.purge(name, include_leased=include_leased)
    session.show(
        {"queue": name, "purged": count},
        f"purged {count} messages of queue {name}; `penstock queue undo-purge {name}` "
        "enqueues copies of them, within an hour",
    )


@queue.command("undo-purge")
@click.argument("name")
@pass_session
def undo_purge(session: Session, name: str) -> None:
    """Enqueue copies of what the last purge of queue NAME deleted.

    A purge can be undone once, within an hour. NAME.dlq stands for its dead
    letters.
    """
    with session.client() as client:
        count = client.undo_purge(name)
    session.show(
        {"queue": name, "restored": count}, f"enqueued copies of {count} messages into {name}"
    )


@queue.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Drop its messages and schedules as well.")
@yes_option
@pass_session
def drop(session: Session, name: str, force: bool, yes: bool) -> None:
    """Remove queue NAME and its settings."""
    with session.client() as client:
        found = client.stats(name)
        held = found.ready + found.scheduled + found.leased + found.dead
        question = f"Drop queue {name}, which holds {_about(found)}{held} messages?"
        session.confirm(question, yes, name=name)
        count = client.drop_queue(name, force=force)
    session.show({"queue": name, "discarded": count}, f"dropped queue {name} with {count} messages")


@queue.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@pass_session
def stats(session: Session, names: tuple[str, ...]) -> None:
    """Count the messages of all queues, or of the named ones."""
    with session.client() as client:
        chosen = names or tuple(q.name for q in client.queues())
        found = [client.stats(name) for name in chosen]
    session.show({"queues": found}, lambda screen: _show_stats(screen, found))


def _show_stats(screen: Screen, found: list[QueueStats]) -> None:
    columns = ["queue", "ready", "scheduled", "leased", "dead", "oldest ready"]
    screen.table(columns, [_stats_row(stats) for stats in found])


def _about(stats: QueueStats, word: str = "about ") -> str:
    return word if stats.estimated else ""


def _stats_row(stats: QueueStats) -> list[Any]:
    about = _about(stats, "~")
    counts = [stats.ready, stats.scheduled, stats.leased, stats.dead]
    return [stats.queue, *(f"{about}{n}" for n in counts), duration(stats.oldest_ready_seconds)]
