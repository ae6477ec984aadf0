"""`penstock service`: the PostgreSQL servers of the control plane."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.screen import Screen
from penstock.cli.session import Session, pass_session, yes_option
from penstock.cli.up import without_password
from penstock.commands import read
from penstock.commands.command import Command
from penstock.commands.write.keys import record_activity
from penstock.commands.write.services import (
    add_service,
    cancel_service_task,
    forget_service_queue,
    remove_service,
    retry_service_queue,
    retry_service_task,
    set_service_address,
)
from penstock.commands.write.subscriptions import set_subscription
from penstock.errors import DatabaseUnavailableError
from penstock.model.service import Service

if TYPE_CHECKING:
    from penstock.server.control.addresses import Addresses, ServiceAddress
    from penstock.server.control.service_check import ServiceState


@click.group(cls=Verbs)
def service() -> None:
    """Register PostgreSQL services for the control plane."""


def _address_options(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option("--dsn-env", metavar="VARIABLE", help="Read the DSN from this variable."),
        click.option("--password-stdin", is_flag=True, help="Read the password from stdin."),
        click.option(
            "--password-env", metavar="VARIABLE", help="Read the password from this variable."
        ),
        click.option(
            "--password-from",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Read the password from this file, once.",
        ),
        click.option(
            "--password-file",
            metavar="NAME",
            help="Let the servers read the password from this file of PENSTOCK_SERVICE_PATHS.",
        ),
        click.option("--no-check", is_flag=True, help="Skip the test connection."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@service.command()
@click.argument("name")
@click.argument("named", metavar="[DSN]", required=False)
@_address_options
@pass_session
def add(session: Session, /, name: str, named: str | None, no_check: bool, **given: Any) -> None:
    """Register the PostgreSQL at DSN as NAME, and test the connection.

    Queues can then be created on it over HTTP. DSN is a URL or key=value pairs of libpq. The
    password is stored encrypted under PENSTOCK_SECRET_KEY, and never shown.
    """
    addresses = _addresses()
    address = _address(addresses, named, **given)
    if address is None:
        raise click.UsageError("give a DSN, or --dsn-env")
    state = None if no_check else _tested(addresses, address)
    command = add_service(
        name,
        address.dsn,
        secret=address.secret,
        password_file=address.password_file,
        created_by=getpass.getuser(),
    )
    id = session.run(command)
    session.run(record_activity(getpass.getuser(), "add service", name))
    document = {"id": id, "name": name, "status": None if state is None else state.document()}
    session.show(document, f"service {name} is registered as {id}" + _described(state))


@service.command("set")
@click.argument("name")
@click.argument("named", metavar="[DSN]", required=False)
@_address_options
@pass_session
def set_(session: Session, /, name: str, named: str | None, no_check: bool, **given: Any) -> None:
    """Change the DSN or the password of service NAME, and test it first.

    Its queues and tasks stay. A new DSN without a password keeps the password.
    """
    from penstock.server.control.addresses import ServiceAddress

    addresses, found = _addresses(), session.run(read.service(name))
    address = _address(addresses, named, old=found.dsn, **given)
    if address is None:
        raise click.UsageError("give a DSN or a password")
    if address.secret is None and address.password_file is None:
        address = ServiceAddress(address.dsn, found.secret, found.password_file)
    state = None if no_check else _tested(addresses, address)
    session.run(
        set_service_address(
            name, address.dsn, secret=address.secret, password_file=address.password_file
        )
    )
    session.run(record_activity(getpass.getuser(), "change service", name))
    document = {"name": name, "status": None if state is None else state.document()}
    session.show(document, f"service {name} is changed" + _described(state))


@service.command("list")
@pass_session
def list_services(session: Session) -> None:
    """List the services with their last known state. `local` is the database of the server."""
    found = [_with_own_state(session, each) for each in session.run(read.services())]
    documents = [_document(each) for each in found]
    session.show({"services": documents}, lambda screen: _show(screen, documents, _COLUMNS))


_COLUMNS = ("name", "id", "dsn", "reachable", "version", "schema_version", "checked_at")


def _with_own_state(session: Session, found: Service) -> Service:
    from penstock.server.control.service_check import with_own_state

    async def run(command: Command[Any]) -> Any:
        return session.run(command)

    return asyncio.run(with_own_state(found, run))


def _document(found: Service) -> dict[str, Any]:
    status = dict(found.status or {})
    return {
        "id": found.id,
        "name": found.name,
        "dsn": None if found.dsn is None else without_password(found.dsn),
        "password": "encrypted" if found.secret else found.password_file and "in a file",
        "created_at": found.created_at,
        "created_by": found.created_by,
        "reachable": None if found.checked_at is None else not found.is_down,
        "checked_at": found.checked_at,
        "unreachable_since": found.down_since,
        "error_message": found.error_message,
        "version": status.get("version"),
        "schema_version": status.get("schema_version"),
        "clock_difference_seconds": status.get("clock_difference_seconds"),
        "user": status.get("user"),
        "roles": status.get("roles", []),
        "may_migrate": status.get("may_migrate"),
    }


def _show(screen: Screen, documents: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    screen.table(list(columns), [[each[name] for name in columns] for each in documents])


@service.command()
@click.argument("name")
@pass_session
def show(session: Session, name: str) -> None:
    """Show service NAME with its last known state and its queues."""
    document = _document(_with_own_state(session, session.run(read.service(name))))
    document["queues"] = [_fields(each) for each in session.run(read.service_queues(name))]

    def text(screen: Screen) -> None:
        rows = [[key, value] for key, value in document.items() if key != "queues"]
        screen.table(["field", "value"], rows)
        _show(screen, document["queues"], ("name", "status", "database_name", "error_message"))

    session.show(document, text)


@service.command()
@click.argument("name")
@pass_session
def check(session: Session, name: str) -> None:
    """Test the connection to service NAME from here."""
    from penstock.server.control.addresses import ServiceAddress

    found = session.run(read.service(name))
    if found.dsn is None:
        document = _document(_with_own_state(session, found))
        session.show(document, "service local is this database, and it answers")
        return
    address = ServiceAddress(found.dsn, found.secret, found.password_file)
    state = _tested(_addresses(), address)
    document = {"name": name, "reachable": True, **state.document()}
    session.show(document, f"service {name} answers" + _described(state))


@service.command()
@click.argument("name")
@click.option(
    "--status",
    type=click.Choice(["pending", "running", "completed", "failed", "cancelled"]),
    help="List only tasks with this status.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="List at most this many.",
)
@pass_session
def tasks(session: Session, name: str, status: Any, limit: int) -> None:
    """List the tasks of service NAME, the latest first."""
    session.run(read.service(name))
    found = session.run(read.service_tasks(name, status=status, limit=limit))
    documents = [_fields(each) for each in found]
    columns = ("id", "kind", "queue", "status", "waits_for", "error_message", "created_at")
    session.show({"tasks": documents}, lambda screen: _show(screen, documents, columns))


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in type(row).__slots__}


@service.command("cancel-task")
@click.argument("name")
@click.argument("task")
@pass_session
def cancel_task(session: Session, name: str, task: str) -> None:
    """Cancel a task of service NAME that has not started."""
    by = getpass.getuser()
    session.run(cancel_service_task(name, read.task_id(task), cancelled_by=by))
    session.run(record_activity(by, "cancel task", f"{name}/{task}"))
    session.show({"task_id": task, "status": "cancelled"}, f"task {task} is cancelled")


@service.command("retry-task")
@click.argument("name")
@click.argument("task")
@pass_session
def retry_task(session: Session, name: str, task: str) -> None:
    """Run a failed or cancelled task of service NAME again."""
    session.run(retry_service_task(name, read.task_id(task)))
    session.run(record_activity(getpass.getuser(), "retry task", f"{name}/{task}"))
    session.show({"task_id": task, "status": "pending"}, f"task {task} is pending again")


@service.command("retry-queue")
@click.argument("name")
@click.argument("queue")
@pass_session
def retry_queue(session: Session, name: str, queue: str) -> None:
    """Try again to create or to remove a Failed queue of service NAME."""
    by = getpass.getuser()
    session.run(retry_service_queue(name, queue, created_by=by))
    session.run(record_activity(by, "retry managed queue", f"{name}/{queue}"))
    session.show({"queue": queue, "service": name}, f"requested another attempt for queue {queue}")


@service.command("forget-queue")
@click.argument("name")
@click.argument("queue")
@yes_option
@pass_session
def forget_queue(session: Session, name: str, queue: str, yes: bool) -> None:
    """Remove QUEUE of service NAME from the registry by force. The service is not asked."""
    session.confirm(f"Remove the record of queue {queue} on service {name}?", yes)
    by = getpass.getuser()
    session.run(forget_service_queue(name, queue, removed_by=by))
    session.run(record_activity(by, "delete managed queue", f"{name}/{queue}"))
    session.show({"queue": queue, "removed": True}, f"the record of queue {queue} is removed")


@service.command()
@click.argument("name")
@yes_option
@pass_session
def remove(session: Session, name: str, yes: bool) -> None:
    """Remove the record of service NAME and its queues. Its databases do not change."""
    session.confirm(f"Remove the record of service {name} and its queues?", yes)
    session.run(remove_service(name))
    session.run(record_activity(getpass.getuser(), "remove service", name))
    session.show({"name": name, "removed": True}, f"the record of service {name} is removed")


@service.command("new-key")
@pass_session
def new_key(session: Session) -> None:
    """Print a new PENSTOCK_SECRET_KEY, which encrypts passwords."""
    from penstock.secrets import new_secret_key

    key = new_secret_key()
    session.show({"key": key}, key)


@service.command()
@pass_session
def rekey(session: Session) -> None:
    """Encrypt stored secrets with the first PENSTOCK_SECRET_KEY.

    These are the passwords of services and the signing secrets of subscriptions. Afterwards the
    older keys are no longer needed.
    """
    from penstock.server.control.addresses import ServiceAddress

    addresses = _addresses()
    box, changed, signing = addresses.box, [], []
    for found in session.run(read.services()):
        if found.dsn is None:
            continue
        old = ServiceAddress(found.dsn, found.secret, found.password_file)
        new = addresses.resealed(old)
        if new != old:
            session.run(
                set_service_address(
                    found.name, new.dsn, secret=new.secret, password_file=new.password_file
                )
            )
            changed.append(found.name)
    for each in session.run(read.subscriptions()):
        if each.secret is not None:
            sealed = box.seal(box.open(each.secret))
            session.run(set_subscription(each.name, {"secret": sealed}))
            signing.append(each.name)
    session.run(record_activity(getpass.getuser(), "rekey services"))
    text = f"encrypted {len(changed)} passwords and {len(signing)} signing secrets again"
    session.show({"services": changed, "subscriptions": signing}, text)


def _addresses() -> Addresses:
    from penstock.server.control.addresses import Addresses

    return Addresses.from_environment()


def _address(
    addresses: Addresses,
    dsn: str | None,
    *,
    dsn_env: str | None,
    password_stdin: bool,
    password_env: str | None,
    password_from: Path | None,
    password_file: str | None,
    old: str | None = None,
) -> ServiceAddress | None:
    """The address from the options, or None if no option was given."""
    from penstock.server.control.addresses import without_password as address_without_password

    if dsn is not None and dsn_env is not None:
        raise click.UsageError("give either DSN or --dsn-env, not both")
    passwords = [
        *([sys.stdin.readline().rstrip("\n")] if password_stdin else []),
        *([_variable(password_env)] if password_env else []),
        *([password_from.read_text().rstrip("\n")] if password_from else []),
    ]
    if len(passwords) + (password_file is not None) > 1:
        raise click.UsageError("give one password")
    given = dsn if dsn_env is None else _variable(dsn_env)
    if given is None and not passwords and password_file is None:
        return None
    if given is None and old is None:
        raise click.UsageError("give a DSN, or --dsn-env")
    if given is None:
        given = address_without_password(old or "")
    return addresses.stored(given, passwords[0] if passwords else None, password_file)


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise click.UsageError(f"the variable {name} is not set")
    return value


def _tested(addresses: Addresses, address: ServiceAddress) -> ServiceState:
    from penstock.server.control.service_check import check_service, own_clock

    result = asyncio.run(check_service(addresses.conninfo(address), own_clock))
    if result.state is None:
        raise DatabaseUnavailableError(
            f"the service cannot be reached: {result.error}",
            hint="Correct the address or the password, or add --no-check.",
        )
    return result.state


def _described(state: ServiceState | None) -> str:
    if state is None:
        return ""
    schema = "no schema yet" if state.schema_version is None else f"schema {state.schema_version}"
    roles = ", ".join(state.roles) or "none"
    return (
        f"\nPostgreSQL {state.version}, {schema}, clock difference "
        f"{state.clock_difference_seconds:g} s, user {state.user}, roles {roles}"
    )
