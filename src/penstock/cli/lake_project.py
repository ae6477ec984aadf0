"""The commands of `penstock lake` about projects."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.command_classes import Verb
from penstock.cli.lake_setup import LakeLocation, location_options, opened, require_spark
from penstock.cli.session import Session, pass_session, yes_option


@click.command(cls=Verb)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@pass_session
def init(session: Session, /, directory: Path) -> None:
    """Create a project with a model and a gold table.

    DIRECTORY gets a small example that works. Nothing is replaced.
    """
    require_spark()
    from penstock.lake.project.scaffold import create_project

    created = create_project(directory)
    session.show(
        {"directory": str(directory), "files": [file.name for file in created]},
        f"created {', '.join(file.name for file in created)} in {directory}\n"
        f"Run it: penstock lake run --once --project {directory}",
    )


@click.command("drop-table", cls=Verb)
@location_options
@click.argument("table")
@yes_option
@pass_session
def drop_table(session: Session, /, location: LakeLocation, table: str, yes: bool) -> None:
    """Remove a table of a project from the lake.

    Take it out of the project first: the next run would compute it again. A
    table that it was published to in PostgreSQL stays as it is.
    """
    session.confirm(f"Remove {table} from the lake?", yes)
    with opened(session, location) as found:
        from penstock.lake.declarations import drop_table as drop

        removed = drop(found.lake, table)
    session.show({"table": table, "files": removed}, f"{table} is removed, {removed} files")
