"""`penstock message bulk`: act on all messages that match a filter, with a progress bar."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from getpass import getuser
from typing import Any, get_args

import click

from penstock.cli.command_classes import Verb
from penstock.cli.parameters import duration
from penstock.cli.session import Session, pass_session, yes_option
from penstock.client import Client
from penstock.commands.read.bulk_queries import bulk_acts
from penstock.commands.write.bulk_acts import request_bulk_act, step_bulk_act, stop_bulk_act
from penstock.model.bulk_act import STATES_OF, BulkAct
from penstock.model.message_page import BrowseState, MessageFilter


@click.command("bulk", cls=Verb)
@click.argument("act", type=click.Choice(list(STATES_OF)), metavar="ACT")
@click.option(
    "--queue", "queues", multiple=True, help="Take only messages of this queue. Repeatable."
)
@click.option(
    "--state",
    type=click.Choice(get_args(BrowseState)),
    required=True,
    help="Take messages in this state.",
)
@click.option("--key", help="Take only messages with this key.")
@click.option("--error", help="Take only messages whose last error contains this text.")
@click.option("--worker", help="Take only messages of this worker.")
@click.option("--older-than", type=duration, help="Take only messages older than this.")
@click.option("--younger-than", type=duration, help="Take only messages younger than this.")
@click.option("--to-queue", help="Move or replay into this queue.")
@click.option("--priority", type=click.IntRange(-9, 9), help="Set this priority.")
@click.option("--per-second", type=float, help="Change at most this many each second.")
@click.option("--max-count", type=int, help="Change at most this many.")
@click.option("--dry-run", is_flag=True, help="Count them, and change nothing.")
@yes_option
@pass_session
def bulk(session: Session, /, act: Any, yes: bool, dry_run: bool, **given: Any) -> None:
    """Apply ACT to all messages that match the options.

    This process does it in steps and shows the progress. Ctrl-C stops it
    between two steps. Messages enqueued after the start are left out.
    """
    if not dry_run:
        session.confirm(f"{act} all messages that match?", yes)
    with session.client() as client:
        id = client.run(_request(act, dry_run, **given))
        try:
            _carry_out(session, client, id)
        except KeyboardInterrupt:
            client.run(stop_bulk_act(id))
            client.run(step_bulk_act(id))
        [done] = client.run(bulk_acts(id))
    session.show(done, _sentence(done))


def _request(
    act: Any,
    dry_run: bool,
    *,
    queues: tuple[str, ...],
    state: str,
    key: str | None,
    error: str | None,
    worker: str | None,
    older_than: timedelta | None,
    younger_than: timedelta | None,
    **options: Any,
) -> Any:
    now = datetime.now(UTC)
    filter = MessageFilter(
        key=key,
        error=error,
        worker=worker,
        enqueued_before=None if older_than is None else now - older_than,
        enqueued_after=None if younger_than is None else now - younger_than,
    )
    names = [name.removesuffix(".dlq") for name in queues] or None
    return request_bulk_act(
        act,
        state,
        names,
        filter,
        dry_run=dry_run,
        in_background=False,
        created_by=f"cli:{getuser()}",
        **options,
    )


def _carry_out(session: Session, client: Client, id: str) -> None:
    """Run steps until the last one. A terminal shows the progress of each."""
    while True:
        step = client.run(step_bulk_act(id))
        if session.screen.interactive and not session.json:
            [act] = client.run(bulk_acts(id))
            share = "" if act.fraction is None else f"{100 * act.fraction:.0f} %, "
            text = f"\r{share}looked at {act.looked}, changed {act.changed}"
            click.echo(text, nl=False, err=True)
        if step.is_last:
            return
        time.sleep(step.pause_seconds)


def _sentence(act: BulkAct) -> str:
    verb = "would change" if act.dry_run else "changed"
    count = act.matched if act.dry_run else act.changed
    end = "" if act.status == "done" else f", {act.status}"
    return f"{act.act}: {verb} {count} message{'' if count == 1 else 's'} of {act.looked}{end}"
