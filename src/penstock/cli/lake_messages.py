"""The commands of `penstock lake` that copy or release messages."""

from __future__ import annotations

from typing import Any, get_args

import click

from penstock.cli.command_classes import Verb
from penstock.cli.lake_screen import counting
from penstock.cli.lake_setup import (
    LakeLocation,
    Reporting,
    location_options,
    opened,
    registered,
    report_options,
    reported,
)
from penstock.cli.parameters import time
from penstock.cli.session import Session, pass_session, yes_option
from penstock.model.message import FinalState


@click.command(cls=Verb)
@location_options
@click.option("--job", required=True, help="Name the job, which copies each message once.")
@click.option("--queue", help="Copy only messages of this queue.")
@click.option("--state", type=click.Choice(get_args(FinalState)), help="Match this state.")
@click.option("--since", type=time, help="Copy messages that finished at this time or later.")
@click.option("--until", type=time, help="Copy messages that finished before this time.")
@click.option("--where", metavar="SQL", help="Match this condition over silver_messages.")
@click.option(
    "--quarantined",
    is_flag=True,
    help="Copy quarantined messages. --where is then over silver_quarantine.",
)
@click.option("--into", metavar="QUEUE", help="Enqueue here. Default: their queue.")
@click.option("--max-count", type=click.IntRange(1), help="Copy at most this many.")
@click.option(
    "--per-second",
    type=click.FloatRange(0, min_open=True),
    help="Copy at most this many each second.",
)
@click.option("--dry-run", is_flag=True, help="Count them, and change nothing.")
@report_options
@yes_option
@pass_session
def replay(
    session: Session,
    /,
    location: LakeLocation,
    reporting: Reporting,
    job: str,
    into: str | None,
    per_second: float | None,
    dry_run: bool,
    yes: bool,
    **filters: Any,
) -> None:
    """Enqueue copies of messages that are in the lake.

    A message must match all given options. A second run with the same --job
    continues the first one, and copies no message twice.
    """
    with opened(session, location) as found:
        from penstock.lake.replay import Choice, chosen
        from penstock.lake.replay import replay as copy

        rows = chosen(found.lake, Choice(**filters))
        count = rows.count()
        copies = 0
        if not dry_run:
            session.confirm(f"Enqueue copies of up to {count} messages?", yes)
            with (
                reported(found, "replay", reporting) as step,
                counting(session, "replaying", count, hidden=reporting.is_logged) as progress,
            ):
                step.inputs.add(
                    "silver/quarantine" if filters["quarantined"] else "silver/messages"
                )
                copies = copy(
                    rows, found.registry, job, into=into, per_second=per_second, progress=progress
                )
                step.rows = copies
    text = f"{count} messages match" if dry_run else f"{copies} of {count} messages were enqueued"
    if not dry_run and copies < count:
        text += f". Earlier runs of job {job} have enqueued the others"
    session.show({"job": job, "matched": count, "enqueued": copies, "dry_run": dry_run}, text)


@click.command(cls=Verb)
@click.option("--consumer", help="Return the messages that this stream holds.")
@click.option("--lake", "name", help="Stop keeping history for this lake.")
@yes_option
@pass_session
def release(session: Session, /, consumer: str | None, name: str | None, yes: bool) -> None:
    """Release an abandoned stream or lake.

    Give either --consumer, as in the option of the stream, or --lake, as `lake
    status` shows it.
    """
    if (consumer is None) == (name is None):
        raise click.UsageError("give either --consumer NAME or --lake NAME")
    what = f"stream {consumer}" if consumer is not None else f"lake {name}"
    session.confirm(f"Release {what}?", yes)
    with registered(session) as registry:
        if consumer is not None:
            (returned,) = registry.call("select penstock.spark_release(%s)", consumer)[0]
            text = f"released {what}; {returned} messages were returned to their queues"
        else:
            returned = 0
            if not registry.call("select penstock.release_lake(%s)", name)[0][0]:
                raise click.ClickException(f"no lake is called {name}")
            text = f"released {what}; history no longer waits for it"
    session.show({"consumer": consumer, "lake": name, "returned": returned}, text)
