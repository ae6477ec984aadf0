"""`penstock lake`: lands history in a lake, analyzes and replays it. Spark starts if needed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.lake_forget import forget
from penstock.cli.lake_messages import release, replay
from penstock.cli.lake_project import drop_table, init
from penstock.cli.lake_screen import (
    Watch,
    in_parts,
    show_repaired,
    show_rows,
    show_status,
    show_summary,
    show_verification,
)
from penstock.cli.lake_setup import (
    LakeLocation,
    Reporting,
    keep_options,
    keeping,
    location_options,
    opened,
    opened_to_read,
    report_options,
    reported,
    step_observers,
)
from penstock.cli.parameters import duration
from penstock.cli.session import Session, pass_session, yes_option


@click.group(cls=Verbs)
def lake() -> None:
    """Land finished messages in a lake, and use it. Needs penstock[spark]."""


@lake.command()
@location_options
@click.option("--once", is_flag=True, help="Land and refresh once, then stop.")
@click.option(
    "--every", type=duration, default="10s", show_default=True, help="Look for new rows this often."
)
@click.option(
    "--refresh-every",
    type=duration,
    default="60s",
    show_default=True,
    help="Refresh silver and gold this often.",
)
@click.option(
    "--format",
    type=click.Choice(["delta", "iceberg", "parquet"]),
    help="Set the format of a new lake. Default: delta.",
)
@click.option(
    "--catalog",
    metavar="URL",
    help="Use this REST catalog for a new lake in the Iceberg format. Default: PostgreSQL.",
)
@click.option("--name", help="Register a new lake under this name.")
@click.option(
    "--max-rows",
    type=click.IntRange(1_000, 100_000_000),
    default=500_000,
    show_default=True,
    help="Land at most this many rows of a table in one batch.",
)
@keep_options
@click.option(
    "--begin-anew",  # prose: allow anew, because users type it
    is_flag=True,
    help="Land all rows again, because the database is another one.",
)
@report_options
@pass_session
def run(
    session: Session,
    /,
    location: LakeLocation,
    once: bool,
    every: timedelta,
    refresh_every: timedelta,
    begin_anew: bool,
    reporting: Reporting,
    max_rows: int,
    format: str | None,
    catalog: str | None,
    name: str | None,
    **keep: timedelta | None,
) -> None:
    """Land finished messages, and refresh silver and gold.

    It runs until Ctrl-C or SIGTERM, and finishes the current batch first. With
    --once it stops when everything has landed.
    """
    with opened(session, location, create=True, format=format, catalog=catalog, name=name) as found:
        from penstock.lake.run import Run
        from penstock.lake.run_steps import RunSteps, log_step

        log = log_step if reporting.is_logged else None
        work = Run(
            found.lake,
            found.registry,
            {"dsn": found.dsn},
            max_rows=max_rows,
            refresh_seconds=refresh_every.total_seconds(),
            keep=keeping(keep),
            steps=RunSteps(step_observers(found, log)),
        )
        watching = Watch(session, work, reporting.metrics_file, logs=reporting.is_logged)
        with closing(work), watching as watch:
            work.begin(anew=begin_anew)
            totals = work.once() if once else work.forever(every.total_seconds(), watch.stopped)
    session.show({"lake": location.path, **asdict(totals)}, lambda s: show_summary(s, totals))


@lake.command()
@location_options
@pass_session
def status(session: Session, /, location: LakeLocation) -> None:
    """Show the tables of the lake, and how far behind it is."""
    with opened(session, location, spark=False) as found:
        from penstock.lake.status import status as status_of

        document = status_of(found.lake, found.registry)
    session.show(document, lambda screen: show_status(screen, document))


@lake.command()
@location_options
@report_options
@pass_session
def verify(session: Session, /, location: LakeLocation, reporting: Reporting) -> int:
    """Check every layer: files, days and queues, rows.

    Compares each file with its checksum, bronze with PostgreSQL, silver with
    bronze, gold with silver, and PostgreSQL's gold with gold. The exit code is
    0 if all of them agree. Otherwise the files, the days and the rows that
    differ are listed.
    """
    with opened(session, location) as found:
        from penstock.lake.maintenance.verify import verify as check

        with (
            reported(found, "verify", reporting) as step,
            in_parts(session, "comparing", hidden=reporting.is_logged) as begun,
        ):
            step.inputs.update(table.path for table in found.lake.tables())
            result = check(found.lake, found.registry, found.service, begun)
            step.rows = sum(each.expected.rows for each in result.compared)
            step.passed = result.agrees
    document = {
        "agrees": result.agrees,
        "damaged": result.damaged,
        "compared": [{**asdict(each), "agrees": each.agrees} for each in result.compared],
    }
    session.show(document, lambda screen: show_verification(screen, result))
    return 0 if result.agrees else _DIFFERENT


@lake.command()
@location_options
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="TABLE",
    help="Rebuild silver, gold, or a table such as gold/queue_day. Repeatable. Default: all.",
)
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Start with this day (UTC).")
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), help="End with this day (UTC).")
@report_options
@pass_session
def rebuild(
    session: Session,
    /,
    location: LakeLocation,
    reporting: Reporting,
    tables: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
) -> None:
    """Recompute silver and gold from bronze.

    If silver is recomputed, so is the gold that is computed from it. Silver of
    days that bronze no longer keeps does not change.
    """
    with opened(session, location) as found:
        from penstock.lake.maintenance.rebuild import chosen_tables, days_between
        from penstock.lake.maintenance.rebuild import rebuild as recompute
        from penstock.lake.publish import publish

        days = days_between(found.lake.state(), since, until)
        with (
            reported(found, "rebuild", reporting) as step,
            in_parts(session, "rebuilding", hidden=reporting.is_logged) as begun,
        ):
            step.inputs.update(table.path for table in found.lake.tables("bronze"))
            done = recompute(found.lake, chosen_tables(found.lake, tables), days, observer=begun)
            step.rows, step.outputs = done.rows, done.written
        published = publish(found.lake, found.registry)
    session.show(
        {
            "tables": done.tables,
            "days": done.days,
            "rows": done.rows,
            "quarantined": done.quarantined,
            "published": published,
        },
        f"{len(done.days)} days of {len(done.tables)} tables recomputed, {done.rows:,} rows",
    )


@lake.command()
@location_options
@report_options
@pass_session
def repair(session: Session, /, location: LakeLocation, reporting: Reporting) -> int:
    """Move damaged files aside, and restore what can be restored.

    Bronze comes from PostgreSQL as far as it still has the rows, and from
    silver otherwise. Silver and gold are recomputed, and published again if
    PostgreSQL differs. Lists the messages that are lost, and ends with 9 if
    there are any.
    """
    with opened(session, location) as found:
        from penstock.lake.maintenance.published import republish
        from penstock.lake.maintenance.repair import repair as restore
        from penstock.lake.publish import publish

        with (
            reported(found, "repair", reporting) as step,
            in_parts(session, "repairing", hidden=reporting.is_logged) as begun,
        ):
            done = restore(found.lake, found.dsn, begun)
            done.report(step)
            step.passed = not done.lost
        if done.damaged:
            publish(found.lake, found.registry)
        published = republish(found.lake, found.registry)
    document = {**asdict(done), "published": published}
    session.show(document, lambda screen: show_repaired(screen, done, published))
    return _DIFFERENT if done.lost else 0


_DIFFERENT = 9


@lake.command()
@location_options
@click.option(
    "--min-files",
    type=click.IntRange(2),
    default=2,
    show_default=True,
    help="Join the files of a day and queue if at least this many are small.",
)
@keep_options
@click.option(
    "--clear-after",
    type=duration,
    default="7d",
    show_default=True,
    help="Delete files this long after they were replaced. Until then, readers can go back.",
)
@report_options
@pass_session
def compact(
    session: Session,
    /,
    location: LakeLocation,
    reporting: Reporting,
    min_files: int,
    clear_after: timedelta,
    **keep: Any,
) -> None:
    """Join small files, and remove days that are too old."""
    with opened(session, location) as found:
        from penstock.lake.maintenance import compact as work

        with reported(found, "compact", reporting) as step:
            with in_parts(session, "compacting", hidden=reporting.is_logged) as begun:
                joined = work.compact(found.lake, min_files, begun)
            removed = work.retain(found.lake, keeping(keep))
            cleared = work.clear(found.lake, int(clear_after.total_seconds() // 3600))
            step.files = joined.before + removed + cleared
    session.show(
        {"joined": joined.before, "into": joined.after, "removed": removed, "cleared": cleared},
        f"{joined.before} files joined into {joined.after}, {removed} removed that were too old, "
        f"{cleared} cleared",
    )


@lake.command("drop-landed")
@location_options
@click.option("--keep", type=duration, default="0s", help="Drop only what is older than this.")
@click.option("--all", "turn", is_flag=True, help="Drop the part that is in use as well.")
@report_options
@yes_option
@pass_session
def drop_landed(
    session: Session,
    /,
    location: LakeLocation,
    reporting: Reporting,
    keep: timedelta,
    turn: bool,
    yes: bool,
) -> None:
    """Drop history from PostgreSQL that the lake verifiably has.

    History is dropped in parts of about a day. A part stays if a registered
    lake lacks it, or if the lake and PostgreSQL do not agree.
    """
    session.confirm("Drop landed history from PostgreSQL?", yes)
    with opened(session, location) as found:
        from penstock.lake.maintenance.drop import drop_landed as drop

        with reported(found, "drop_landed", reporting):
            dropped = drop(found.lake, found.registry, found.service, keep, turn=turn)
    session.show(dropped, f"{dropped.slots} parts of history dropped, {dropped.bytes} bytes")


@lake.command()
@location_options
@click.argument("sql")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="Show this many.",
)
@pass_session
def query(session: Session, /, location: LakeLocation, sql: str, limit: int) -> None:
    """Run a SELECT over the lake.

    Its tables are bronze_history, bronze_attempts, silver_messages,
    silver_attempts, silver_quarantine, gold_queue_minute, gold_queue_day,
    gold_error_day and gold_worker_minute, and those of its project, such as
    silver_orders.
    """
    with opened_to_read(session, location) as found:
        from penstock.lake.query import rows_of

        columns, rows = rows_of(found, sql, limit)
    document = {"rows": [dict(zip(columns, row, strict=True)) for row in rows]}
    session.show(document, lambda screen: show_rows(screen, columns, rows, limit))


for command in (forget, replay, release, init, drop_table):
    lake.add_command(command)
