"""`penstock service`: the PostgreSQLs of the control plane."""

from __future__ import annotations

import getpass
from typing import Any

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.screen import Screen
from penstock.cli.session import Session, connect, pass_session, yes_option
from penstock.cli.up import without_password
from penstock.commands import read
from penstock.commands.write.keys import record_activity
from penstock.commands.write.services import add_service, remove_service
from penstock.model.service import Service
from penstock.settings import normalise_dsn


@click.group(cls=Verbs)
def service() -> None:
    """Register PostgreSQLs for the control plane."""


@service.command()
@click.argument("name")
@click.argument("address", metavar="DSN")
@click.option("--no-check", is_flag=True, help="Skip the test connection.")
@pass_session
def add(session: Session, name: str, address: str, no_check: bool) -> None:
    """Register the PostgreSQL at DSN as NAME.

    Queues can then be created on it over HTTP. The password is never shown.
    """
    address = normalise_dsn(address)
    if not no_check:
        connect(address).close()
    id = session.run(add_service(name, address, created_by=getpass.getuser()))
    session.run(record_activity(getpass.getuser(), "add service", name))
    session.show({"id": id, "name": name}, f"service {name} is there, as {id}")


@service.command("list")
@pass_session
def list_services(session: Session) -> None:
    """List the services. `local` is the database of the server."""
    found = session.run(read.services())
    documents = [_document(each) for each in found]
    session.show({"services": documents}, lambda screen: _show(screen, documents))


def _document(found: Service) -> dict[str, Any]:
    return {
        "id": found.id,
        "name": found.name,
        "dsn": None if found.dsn is None else without_password(found.dsn),
        "created_at": found.created_at,
        "created_by": found.created_by,
    }


def _show(screen: Screen, documents: list[dict[str, Any]]) -> None:
    columns = ["name", "id", "dsn", "created_at"]
    screen.table(columns, [[each[name] for name in columns] for each in documents])


@service.command()
@click.argument("name")
@yes_option
@pass_session
def remove(session: Session, name: str, yes: bool) -> None:
    """Remove the record of service NAME and its queues. Its data stay."""
    session.confirm(f"Remove the record of service {name} and its queues?", yes)
    session.run(remove_service(name))
    session.run(record_activity(getpass.getuser(), "remove service", name))
    session.show({"name": name, "removed": True}, f"service {name} is forgotten")
