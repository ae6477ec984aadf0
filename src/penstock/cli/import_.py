"""`penstock import`: bring messages from a PGMQ queue, or the rows of a table, into a queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import psycopg
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.command_classes import Verbs
from penstock.cli.session import Session, connect, pass_session

if TYPE_CHECKING:
    from penstock.importing import Move, Source

Open = Callable[[psycopg.Connection[Any]], "Source"]
_POLL_SECONDS = 1.0
_MOVED = "moved {count:,} rows into queue {queue}, and deleted them from the table"
_COPIED = "copied {count:,} rows into queue {queue}, and kept them in the table"


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option(
            "--from",
            "source_dsn",
            metavar="DSN",
            help="Import from this PostgreSQL. Default: the database of Penstock.",
        ),
        click.option(
            "--batch",
            type=click.IntRange(1, 10_000),
            default=1000,
            show_default=True,
            help="Move this many messages in each transaction.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group("import", cls=Verbs)
def import_() -> None:
    """Import messages from PGMQ or from a table."""


@import_.command()
@click.argument("name")
@click.option("--to", "queue", metavar="QUEUE", help="Fill this queue. Default: the same name.")
@click.option("--wait", is_flag=True, help="Wait for messages that readers still hold.")
@_shared
@pass_session
def pgmq(
    session: Session, name: str, queue: str | None, wait: bool, source_dsn: str | None, batch: int
) -> None:
    """Move the messages of PGMQ queue NAME into a queue of Penstock.

    Messages that a reader holds stay in PGMQ.
    """
    from penstock.importing import PgmqSource

    _run(session, queue or name.lower(), source_dsn, batch, lambda c: PgmqSource(c, name), wait)


@import_.command()
@click.argument("name")
@click.option("--to", "queue", metavar="QUEUE", required=True, help="Fill this queue.")
@click.option("--key", metavar="COLUMN", help="Identify rows by this column. Default: primary key.")
@click.option("--payload", metavar="COLUMN", help="Read the payload here. Default: the row.")
@click.option("--headers", metavar="COLUMN", help="Read headers here, a JSON object.")
@click.option("--priority", metavar="COLUMN", help="Read the priority here, -9 to 9.")
@click.option("--visible-at", metavar="COLUMN", help="Read the time of delivery here.")
@click.option("--where", metavar="SQL", default="true", help="Move only these rows. Default: all.")
@click.option("--keep", is_flag=True, help="Copy each row once, and keep the rows.")
@_shared
@pass_session
def table(
    session: Session,
    /,
    name: str,
    queue: str,
    keep: bool,
    source_dsn: str | None,
    batch: int,
    **columns: Any,
) -> None:
    """Move the rows of table NAME into a queue.

    They are deleted from the table as they enter the queue, unless --keep is given.
    """
    from penstock.importing import TableSource

    _run(
        session,
        queue,
        source_dsn,
        batch,
        lambda c: TableSource(c, name, keeps=keep, **columns),
        wait=False,
        report=_COPIED if keep else _MOVED,
    )


def _run(
    session: Session,
    queue: str,
    source_dsn: str | None,
    batch: int,
    source: Open,
    wait: bool,
    report: str = "{count:,} messages are in queue {queue} now",
) -> None:
    from penstock.importing import Move, Mover

    with session.connection() as target, _source(session, source_dsn) as elsewhere:
        opened = source(elsewhere)
        mover = Mover(target, queue, opened, elsewhere, batch)
        mover.prepare()
        moved = 0
        with _progress(session, f"importing into {queue}", opened.count()) as advance:
            while True:
                move = mover.run(advance)
                moved += move.moved
                # A reader may still give a message back.
                if not (wait and move.held):
                    break
                time.sleep(_POLL_SECONDS)
    _show(session, Move(queue, moved, move.held), report)


@contextmanager
def _progress(session: Session, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, if that is a terminal. It disappears at the end."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Progress(*columns, TimeElapsedColumn(), console=session.screen.err, transient=True)
    bar.disable = session.json or not session.screen.err.is_terminal
    task = bar.add_task(what, total=total)
    with bar:
        yield lambda count: bar.advance(task, count)


@contextmanager
def _source(session: Session, dsn: str | None) -> Iterator[psycopg.Connection[Any]]:
    if dsn is None:
        with session.connection() as connection:
            yield connection
    else:
        with connect(dsn) as connection:
            yield connection


def _show(session: Session, move: Move, report: str) -> None:
    text = report.format(count=move.moved, queue=move.queue)
    if move.held:
        text += f"; readers hold {move.held:,} more: run the import again later, or with --wait"
    session.show(move, text)
