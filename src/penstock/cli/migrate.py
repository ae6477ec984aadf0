"""`penstock migrate`: create and upgrade schema `penstock`, and show its version."""

from __future__ import annotations

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.screen import Screen
from penstock.cli.session import Session, pass_session
from penstock.db.migration_plan import CONTRACTS
from penstock.db.migrations import MigrationStatus, Migrator

_with = click.option(
    "--with",
    "contracts",
    type=click.Choice(CONTRACTS),
    multiple=True,
    help="Install this compatible interface over Penstock's queues too. Repeatable.",
)


@click.group(cls=Verbs)
def migrate() -> None:
    """Create or upgrade the schema that everything else uses."""


@migrate.command()
@_with
@pass_session
def up(session: Session, contracts: tuple[str, ...]) -> None:
    """Apply the missing migrations. Concurrent runs are safe."""
    with session.connection() as connection:
        applied = Migrator(connection, contracts=contracts).up()
        version = Migrator(connection).status().current
    names = [migration.name for migration in applied]
    text = f"applied {len(names)}: {', '.join(names)}" if names else "nothing to apply"
    session.show({"applied": applied, "current": version}, f"schema version {version}: {text}")


@migrate.command()
@pass_session
def status(session: Session) -> None:
    """Show the schema version and the pending migrations."""
    with session.connection() as connection:
        found = Migrator(connection).status()
    session.show(found, lambda screen: _show(screen, found))


def _show(screen: Screen, status: MigrationStatus) -> None:
    screen.line(f"schema version {status.current or 'none'}, this client has {status.target}")
    if status.contracts:
        screen.line(f"with {', '.join(status.contracts)}")
    if status.pending:
        screen.table(["version", "pending"], [[m.version, m.name] for m in status.pending])
        screen.line("run `penstock migrate up`")


@migrate.command()
@_with
@pass_session
def sql(session: Session, contracts: tuple[str, ...]) -> None:
    """Print the whole schema as a script that psql can run."""
    script = Migrator.sql(contracts=contracts)
    session.show({"sql": script}, lambda screen: screen.raw(script))
