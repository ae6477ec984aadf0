"""`penstock lake`: history into a lake, its analytics, and back. Spark starts only when it must."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import click

from penstock.cli.commands import Verbs
from penstock.cli.lake_opening import (
    Place,
    keep_options,
    keeping,
    opened,
    opened_to_read,
    place_options,
    registered,
)
from penstock.cli.lake_screen import (
    Watch,
    counting,
    show_comparisons,
    show_rows,
    show_status,
    show_summary,
)
from penstock.cli.parameters import duration, time
from penstock.cli.session import Session, pass_session, yes_option
from penstock.message import FinalState


@click.group(cls=Verbs)
def lake() -> None:
    """Land finished messages in a lake, and use it. Needs penstock[spark]."""


@lake.command()
@place_options
@click.option("--once", is_flag=True, help="Land and refresh what is there, and end.")
@click.option(
    "--every", type=duration, default="10s", show_default=True, help="Look for more so often."
)
@click.option(
    "--refresh-every",
    type=duration,
    default="60s",
    show_default=True,
    help="Bring silver and gold up to date so often.",
)
@click.option("--format", type=click.Choice(["parquet", "delta"]), help="Of a new lake.")
@click.option("--name", help="Of a new lake, under which PostgreSQL knows it.")
@click.option(
    "--max-rows",
    type=click.IntRange(1_000, 100_000_000),
    default=500_000,
    show_default=True,
    help="Of one batch and table.",
)
@keep_options
@click.option("--begin-anew", is_flag=True, help="Land all again: the database is another one.")
@click.option(
    "--metrics-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the run's metrics there, for Prometheus.",
)
@pass_session
def run(
    session: Session,
    /,
    place: Place,
    once: bool,
    every: timedelta,
    refresh_every: timedelta,
    begin_anew: bool,
    metrics_file: Path | None,
    max_rows: int,
    format: str | None,
    name: str | None,
    **keep: timedelta | None,
) -> None:
    """Land finished messages, and bring silver and gold up to date.

    Goes on until Ctrl-C or SIGTERM, which let the batch in work finish; with
    --once it ends when everything is there.
    """
    with opened(session, place, create=True, format=format, name=name) as found:
        from penstock.lake.run import Run

        work = Run(
            found.lake,
            found.registry,
            {"dsn": found.dsn},
            max_rows=max_rows,
            refresh_seconds=refresh_every.total_seconds(),
            keep=keeping(keep),
        )
        with closing(work), Watch(session, work, metrics_file) as watch:
            work.begin(anew=begin_anew)
            tally = work.once() if once else work.forever(every.total_seconds(), watch.stopped)
    session.show({"lake": place.path, **asdict(tally)}, lambda s: show_summary(s, tally))


@lake.command()
@place_options
@pass_session
def status(session: Session, /, place: Place) -> None:
    """Say what the lake holds, and how far behind it is."""
    with opened(session, place, spark=False) as found:
        from penstock.lake.status import status as status_of

        document = status_of(found.lake, found.registry)
    session.show(document, lambda screen: show_status(screen, document))


@lake.command()
@place_options
@pass_session
def verify(session: Session, /, place: Place) -> int:
    """Compare the lake with PostgreSQL, by day and queue.

    Rows are counted, and their checksums added up. Ends with 0 if both agree
    on all that PostgreSQL still has.
    """
    with opened(session, place) as found:
        from penstock.lake.verify import verify as compare

        comparisons = compare(found.lake, found.registry, found.service)
    document = {"agrees": all(c.agrees for c in comparisons), "compared": comparisons}
    session.show(document, lambda screen: show_comparisons(screen, comparisons))
    return 0 if document["agrees"] else _DIFFERENT


_DIFFERENT = 9


@lake.command()
@place_options
@click.option(
    "--min-files",
    type=click.IntRange(2),
    default=2,
    show_default=True,
    help="Join files where a day and queue has so many small ones.",
)
@keep_options
@click.option(
    "--clear-after",
    type=duration,
    default="7d",
    show_default=True,
    help="Delete replaced files of a Delta lake so much later.",
)
@pass_session
def compact(
    session: Session, /, place: Place, min_files: int, clear_after: timedelta, **keep: Any
) -> None:
    """Join small files into large ones, and remove days that are too old."""
    with opened(session, place) as found:
        from penstock.lake import compact as work

        joined = work.compact(found.lake, min_files)
        removed = work.retain(found.lake, keeping(keep))
        cleared = work.clear(found.lake, int(clear_after.total_seconds() // 3600))
    session.show(
        {"joined": joined.before, "into": joined.after, "removed": removed, "cleared": cleared},
        f"{joined.before} files joined into {joined.after}, {removed} removed that were too old, "
        f"{cleared} cleared",
    )


@lake.command("drop-landed")
@place_options
@click.option("--keep", type=duration, default="0s", help="Only what ended longer ago than this.")
@click.option("--all", "turn", is_flag=True, help="Also what is still being written to.")
@yes_option
@pass_session
def drop_landed(session: Session, /, place: Place, keep: timedelta, turn: bool, yes: bool) -> None:
    """Drop history from PostgreSQL that the lake is seen to have.

    History goes in parts of about a day. Nothing goes that any registered
    lake lacks, or if the lake and PostgreSQL do not agree.
    """
    session.confirm("Drop landed history from PostgreSQL?", yes)
    with opened(session, place) as found:
        from penstock.lake.drop import drop_landed as drop

        dropped = drop(found.lake, found.registry, found.service, keep, turn=turn)
    session.show(dropped, f"{dropped.slots} parts of history dropped, {dropped.bytes} bytes")


@lake.command()
@place_options
@click.option("--job", required=True, help="Its name: a message is copied once for a job.")
@click.option("--queue", help="Messages of this queue.")
@click.option("--state", type=click.Choice(get_args(FinalState)), help="Messages that ended so.")
@click.option("--since", type=time, help="Messages that finished at this time or later.")
@click.option("--until", type=time, help="Messages that finished before this time.")
@click.option("--where", metavar="SQL", help="A condition over silver_messages.")
@click.option("--into", metavar="QUEUE", help="Enqueue them there instead.")
@click.option("--max-count", type=click.IntRange(1), help="No more than this many.")
@click.option("--per-second", type=click.FloatRange(0, min_open=True), help="Spread them out.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@yes_option
@pass_session
def replay(
    session: Session,
    /,
    place: Place,
    job: str,
    into: str | None,
    per_second: float | None,
    dry_run: bool,
    yes: bool,
    **filters: Any,
) -> None:
    """Enqueue copies of messages that are in the lake.

    The options narrow it down together. Run again under the same --job, it
    goes on where it was, and copies nothing twice.
    """
    with opened(session, place) as found:
        from penstock.lake.replay import Choice, chosen
        from penstock.lake.replay import replay as copy

        rows = chosen(found.lake, Choice(**filters))
        count = rows.count()
        copies = 0
        if not dry_run:
            session.confirm(f"Enqueue copies of up to {count} messages?", yes)
            with counting(session, "replaying", count) as progress:
                copies = copy(
                    rows, found.registry, job, into=into, per_second=per_second, progress=progress
                )
    text = f"{count} messages match" if dry_run else f"{copies} of {count} messages were enqueued"
    session.show({"job": job, "matched": count, "enqueued": copies, "dry_run": dry_run}, text)


@lake.command()
@click.option("--consumer", help="A stream that claims: what it holds goes back to its queues.")
@click.option("--lake", "name", help="A lake: history no longer waits for it.")
@yes_option
@pass_session
def release(session: Session, /, consumer: str | None, name: str | None, yes: bool) -> None:
    """Give back what an abandoned stream or lake holds.

    Say which: --consumer as in the option of the stream, --lake as `lake
    status` shows it.
    """
    if (consumer is None) == (name is None):
        raise click.UsageError("say which: --consumer NAME or --lake NAME")
    what = f"stream {consumer}" if consumer is not None else f"lake {name}"
    session.confirm(f"Release {what}?", yes)
    with registered(session) as registry:
        if consumer is not None:
            (returned,) = registry.call("select penstock.spark_release(%s)", consumer)[0]
            text = f"{what} is released; {returned} messages went back"
        else:
            returned = 0
            if not registry.call("select penstock.release_lake(%s)", name)[0][0]:
                raise click.ClickException(f"no lake is called {name}")
            text = f"{what} is released; history no longer waits for it"
    session.show({"consumer": consumer, "lake": name, "returned": returned}, text)


@lake.command()
@place_options
@click.argument("sql")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Rows shown."
)
@pass_session
def query(session: Session, /, place: Place, sql: str, limit: int) -> None:
    """Run a SELECT over the lake.

    Its tables are bronze_history, bronze_attempts, silver_messages,
    silver_attempts, gold_queue_minute, gold_queue_day, gold_error_day and
    gold_worker_minute.
    """
    with opened_to_read(session, place) as found:
        from penstock.lake.query import rows_of

        columns, rows = rows_of(found, sql, limit)
    document = {"rows": [dict(zip(columns, row, strict=True)) for row in rows]}
    session.show(document, lambda screen: show_rows(screen, columns, rows, limit))
