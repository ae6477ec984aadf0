"""Services: PostgreSQL servers that operators register. Their passwords are never shown."""

from __future__ import annotations

from typing import Final

from psycopg.conninfo import conninfo_to_dict

from penstock.commands import read
from penstock.commands.write.services import add_service, remove_service
from penstock.errors import ConfigurationError, InvalidValueError
from penstock.model.service import Service
from penstock.server.control import documents as c
from penstock.server.control.targets import own_database
from penstock.server.transport.routing import Call, Endpoints
from penstock.settings import normalise_dsn

endpoint: Final = Endpoints("managed services")


@endpoint("GET", "/managed-services", answers={200: c.Services})
async def list_services(call: Call) -> c.Services:
    """The services. `local` is the server's own database."""
    found = await call.run(read.services())
    return c.Services([_document(each, call.context.database.dsn) for each in found])


@endpoint("POST", "/managed-services", body=c.NewService, answers={201: c.Service},
          problems=(409,))  # fmt: skip
async def create_service(call: Call) -> c.Service:
    """Register a PostgreSQL. Its address is not shown again."""
    body: c.NewService = call.body
    try:
        dsn = normalise_dsn(body.dsn, "dsn")
    except ConfigurationError as error:
        raise InvalidValueError(error.message, hint=error.hint, field="dsn") from None
    command = add_service(body.name, dsn, created_by=call.principal.name)
    id = await call.act(command, "add service", body.name)
    return _document(await call.run(read.service(id)), call.context.database.dsn)


@endpoint("GET", "/managed-services/{service}", answers={200: c.Service},
          problems=(404,))  # fmt: skip
async def show_service(call: Call) -> c.Service:
    """One service, by its id or name."""
    found = await call.run(read.service(call.path["service"]))
    return _document(found, call.context.database.dsn)


@endpoint("DELETE", "/managed-services/{service}", answers={200: c.Service},
          problems=(404,))  # fmt: skip
async def delete_service(call: Call) -> c.Service:
    """Remove a service and its queues from the registry. Its databases do not change."""
    found = await call.run(read.service(call.path["service"]))
    await call.act(remove_service(found.id), "remove service", found.name)
    return _document(found, call.context.database.dsn)


def _document(service: Service, home: str) -> c.Service:
    return c.Service(
        id=service.id,
        name=service.name,
        created_at=service.created_at.replace(microsecond=0),
        database_name=own_database(service.dsn or home),
        **shown_address(service.dsn or home),
    )


def shown_address(dsn: str) -> dict[str, str | None]:
    """The parts of an address that are not secret, in addition to the database."""
    found = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    return {
        "host": found.get("host") or found.get("hostaddr"),
        "port": found.get("port"),
        "user": found.get("user"),
    }
