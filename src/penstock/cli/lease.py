"""`penstock claim`, and the verbs that settle or extend its leases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click

from penstock.cli.command_classes import Verb
from penstock.cli.json_documents import lease_document
from penstock.cli.parameters import duration
from penstock.cli.screen import Screen, cell, shorten
from penstock.cli.session import Session, pass_session
from penstock.model.message import Lease

COLUMNS = ["id", "token", "attempt", "priority", "key", "group", "lease until", "payload"]


@click.command(cls=Verb)
@click.argument("queue")
@click.option(
    "-n", "--count", type=int, default=1, show_default=True, help="Claim up to this many."
)
@click.option("--lease-seconds", type=int, help="Set the lease. Default: the queue's lease.")
@click.option("--worker", help="Claim under this name.  [default: host and process]")
@pass_session
def claim(
    session: Session, queue: str, count: int, lease_seconds: int | None, worker: str | None
) -> None:
    """Claim messages from QUEUE under a lease.

    `ack`, `nack`, `extend`, `snooze` and `reject` need the token that is
    printed. A message whose lease expires goes back to the queue.
    """
    with session.client() as client:
        leases = client.claim(queue, count, lease_seconds=lease_seconds, worker=worker)
    session.show(
        {"leases": [lease_document(lease) for lease in leases]},
        lambda screen: _show(screen, queue, leases),
    )


def _show(screen: Screen, queue: str, leases: list[Lease]) -> None:
    if not leases:
        screen.line(f"nothing is ready in {queue}")
        return
    screen.table(COLUMNS, [_row(screen, lease) for lease in leases])
    if screen.interactive:
        screen.line(f"settle each: penstock ack {leases[0].id} {leases[0].token}")


def _row(screen: Screen, lease: Lease) -> list[Any]:
    payload = shorten(lease.payload) if screen.interactive else lease.payload
    return [
        lease.id,
        lease.token,
        f"{lease.attempt}/{lease.max_attempts}",
        lease.priority,
        lease.key,
        lease.group,
        lease.lease_until,
        payload,
    ]


def lease_arguments(function: Callable[..., None]) -> Callable[..., None]:
    """ID and TOKEN, as `claim` printed them."""
    function = click.argument("token", type=int)(function)
    return click.argument("message_id", metavar="ID", type=int)(function)


@click.command(cls=Verb)
@lease_arguments
@pass_session
def ack(session: Session, message_id: int, token: int) -> None:
    """Settle a message as done."""
    with session.client() as client:
        client.ack((message_id, token))
    session.show({"id": message_id, "state": "done"}, f"message {message_id} is done")


@click.command(cls=Verb)
@lease_arguments
@click.option("--error", help="Store this error with the message.")
@click.option("--delay", type=duration, help="Wait before the next attempt.  [default: backoff]")
@pass_session
def nack(
    session: Session, message_id: int, token: int, error: str | None, delay: timedelta | None
) -> None:
    """Record a failed attempt, and deliver the message again later."""
    with session.client() as client:
        state = client.nack((message_id, token), error=error, delay=delay)
    _show_state(session, message_id, state)


@click.command(cls=Verb)
@lease_arguments
@click.argument("seconds", type=int, required=False)
@pass_session
def extend(session: Session, message_id: int, token: int, seconds: int | None) -> None:
    """Extend a lease to SECONDS from now, or to the queue's lease."""
    with session.client() as client:
        until = client.extend((message_id, token), seconds)
    session.show(
        {"id": message_id, "lease_until": until},
        f"the lease on message {message_id} lasts until {cell(until)}",
    )


@click.command(cls=Verb)
@lease_arguments
@click.argument("delay", type=duration, default="0")
@pass_session
def snooze(session: Session, message_id: int, token: int, delay: timedelta) -> None:
    """Deliver a message again after DELAY. The attempt does not count."""
    with session.client() as client:
        state = client.snooze((message_id, token), delay)
    _show_state(session, message_id, state)


@click.command(cls=Verb)
@lease_arguments
@click.argument("reason", required=False)
@pass_session
def reject(session: Session, message_id: int, token: int, reason: str | None) -> None:
    """Make a message a dead letter now.

    Use it if another attempt would not help.
    """
    with session.client() as client:
        state = client.reject((message_id, token), reason)
    _show_state(session, message_id, state)


def _show_state(session: Session, message_id: int, state: str) -> None:
    session.show({"id": message_id, "state": state}, f"message {message_id} is {state}")
