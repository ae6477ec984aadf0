"""`penstock enqueue`: one message from the arguments or stdin, or a file of messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import click
from rich.progress import Progress

from penstock.cli.command_classes import Verb
from penstock.cli.parameters import duration, header, parse_json, time
from penstock.cli.session import Session, pass_session
from penstock.model.message import NewMessage

# Redrawing the bar for every line would take longer than sending it.
PROGRESS_LINES = 1000
ONE_ONLY = {"key": "--key", "on_conflict": "--on-conflict", "unique": "--unique"}


@click.command(cls=Verb)
@click.argument("queue")
@click.argument("payload", required=False)
@click.option("--file", type=click.File("rb"), help="Enqueue each line of a file. - is stdin.")
@click.option("--bytes", "as_bytes", is_flag=True, help="Take the payload as bytes, not as JSON.")
@click.option("--key", help="Allow one waiting message with this key.")
@click.option(
    "--priority", type=int, default=0, show_default=True, help="Set the priority, from -9 to 9."
)
@click.option("--group", help="Deliver messages of this group in order, one at a time.")
@click.option("--delay", type=duration, help="Deliver the message after this duration.")
@click.option("--visible-at", type=time, help="Deliver the message at this time.")
@click.option("--ttl", type=duration, help="Expire the message after this duration.")
@click.option(
    "--header",
    "headers",
    type=header,
    metavar="NAME=VALUE",
    multiple=True,
    help="Add this header. Repeatable.",
)
@click.option(
    "--max-attempts", type=int, help="Limit the attempts. Default: the setting of the queue."
)
@click.option(
    "--on-conflict",
    type=click.Choice(["replace", "skip", "error"]),
    help="Choose what happens if the key is taken.  [default: replace]",
)
@click.option(
    "--unique",
    type=click.Choice(["waiting", "unfinished"]),
    help="Choose which messages the key is compared with.  [default: waiting]",
)
@pass_session
def enqueue(
    session: Session,
    /,
    queue: str,
    payload: str | None,
    file: IO[bytes] | None,
    as_bytes: bool,
    headers: tuple[tuple[str, str], ...],
    **options: Any,
) -> None:
    """Enqueue a message into QUEUE, or with --file one for each line.

    PAYLOAD is JSON. With `-`, or without PAYLOAD if stdin is not a terminal,
    it is read from stdin. A file has one JSON value in each line. All lines
    are enqueued, or none.
    """
    options = {name: value for name, value in options.items() if value is not None}
    if headers:
        options["headers"] = dict(headers)
    if file is not None:
        _refuse_with_file(payload, options)
        _enqueue_file(session, queue, file, as_bytes, options)
    else:
        _enqueue_one(session, queue, _payload(payload, as_bytes), options)


def _enqueue_one(session: Session, queue: str, payload: Any, options: dict[str, Any]) -> None:
    with session.client() as client:
        message_id = client.enqueue(queue, payload, **options)
    session.show({"id": message_id, "queue": queue}, f"enqueued message {message_id} into {queue}")


def _payload(argument: str | None, as_bytes: bool) -> Any:
    if argument is None and sys.stdin.isatty():
        raise click.UsageError("no payload was given: add it, pipe it to stdin, or use --file")
    data = sys.stdin.buffer.read() if argument in (None, "-") else argument.encode()
    if as_bytes:
        return data
    try:
        return parse_json(data)
    except ValueError as error:
        raise click.UsageError(
            f"the payload is not JSON ({error}): quote text as JSON,"
            " as in '\"hello\"', or use --bytes"
        ) from None


def _refuse_with_file(payload: str | None, options: dict[str, Any]) -> None:
    if payload is not None:
        raise click.UsageError("give either a PAYLOAD or --file, not both")
    for name in ONE_ONLY.keys() & options.keys():
        # With one key for all lines, only one message would remain.
        raise click.UsageError(f"{ONE_ONLY[name]} is for one message, not for --file")


def _enqueue_file(
    session: Session, queue: str, file: IO[bytes], as_bytes: bool, options: dict[str, Any]
) -> None:
    hidden = session.json or not session.screen.err.is_terminal
    with Progress(console=session.screen.err, transient=True, disable=hidden) as progress:
        task = progress.add_task(f"enqueue into {queue}", total=_size(file))
        lines = _lines(file, as_bytes, lambda done: progress.advance(task, done))
        with session.client() as client:
            done = client.enqueue_many(queue, (NewMessage(line, **options) for line in lines))
    session.show(
        {"queue": queue, "count": done.count, "first_id": done.first_id, "last_id": done.last_id},
        f"enqueued {done.count} messages into {queue}",
    )


def _lines(file: IO[bytes], as_bytes: bool, advance: Callable[[int], None]) -> Iterator[Any]:
    """A payload for each line that is not empty. An invalid line is an error with its number."""
    read = 0
    for number, line in enumerate(file, start=1):
        read += len(line)
        if number % PROGRESS_LINES == 0:
            advance(read)
            read = 0
        content = line.rstrip(b"\r\n")
        if content:
            yield content if as_bytes else _line_value(file, number, content)
    advance(read)


def _line_value(file: IO[bytes], number: int, content: bytes) -> Any:
    try:
        return parse_json(content)
    except ValueError as error:
        raise click.UsageError(
            f"line {number} of {file.name} is not JSON ({error}); nothing was enqueued"
        ) from None


def _size(file: IO[bytes]) -> int | None:
    """The length of a file. A pipe has none, and its bar only moves."""
    try:
        return os.fstat(file.fileno()).st_size or None
    except OSError:
        return None
