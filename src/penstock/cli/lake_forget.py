"""`penstock lake forget`: erases messages from the lake and from PostgreSQL."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

import click

from penstock.cli.command_classes import Verb
from penstock.cli.lake_screen import in_parts, show_forgotten, show_matched
from penstock.cli.lake_setup import (
    LakeLocation,
    Opened,
    Reporting,
    location_options,
    opened,
    report_options,
    reported,
    step_observers,
)
from penstock.cli.session import Session, pass_session, yes_option


@click.command(cls=Verb)
@location_options
@click.option(
    "--where",
    required=True,
    metavar="SQL",
    help="Erase the messages that match this condition over silver_messages.",
)
@click.option("--dry-run", is_flag=True, help="Count the messages, and erase nothing.")
@click.option(
    "--rewrite",
    "is_rewriting",
    is_flag=True,
    help="Rewrite PostgreSQL's tables too, so that their files lose the bytes.",
)
@report_options
@yes_option
@pass_session
def forget(
    session: Session,
    /,
    location: LakeLocation,
    reporting: Reporting,
    where: str,
    dry_run: bool,
    is_rewriting: bool,
    yes: bool,
) -> None:
    """Erase messages from the lake and from PostgreSQL's history.

    Bronze, silver and gold lose them, with their failed attempts; older
    versions of a Delta table and quarantined files are deleted. This cannot
    be undone: use --dry-run first.
    """
    with opened(session, location) as found:
        from penstock.lake.maintenance.forget import forget as erase
        from penstock.lake.maintenance.forget import matches, unfinished_matches
        from penstock.lake.maintenance.rewrite import require_rewritable

        if is_rewriting:
            require_rewritable(found.service)
        if not dry_run:
            _land(found)
        messages = matches(found.lake, where).persist()
        count = messages.count()
        if dry_run:
            behind = found.registry.lag().rows
            unfinished = unfinished_matches(found.lake, found.dsn, where)
            document = {
                "matched": count,
                "dry_run": True,
                "not_landed": behind,
                "unfinished": unfinished,
            }
            session.show(document, lambda s: show_matched(s, count, behind, unfinished))
            return
        also = " and rewrite PostgreSQL's tables" if is_rewriting else ""
        session.confirm(f"Erase {count} messages permanently{also}?", yes)
        with (
            reported(found, "forget", reporting) as step,
            in_parts(session, "erasing", hidden=reporting.is_logged) as begun,
        ):
            step.inputs.update(table.path for table in found.lake.tables("bronze", "silver"))
            done = erase(
                found.lake, found.registry, messages, where, begun, is_rewriting=is_rewriting
            )
            step.rows = done.lake_rows + done.postgres_rows
            step.passed = done.rewritten is None or done.rewritten.is_complete
        messages.unpersist()
    document = {"matched": done.messages, "dry_run": False, **asdict(done)}
    session.show(document, lambda screen: show_forgotten(screen, done))


def _land(found: Opened) -> None:
    """Finished messages that have not landed would enter the lake later."""
    from penstock.lake.run import Run
    from penstock.lake.run_steps import RunSteps

    steps = RunSteps(step_observers(found, None))
    with closing(Run(found.lake, found.registry, {"dsn": found.dsn}, steps=steps)) as work:
        work.begin()
        work.once()
