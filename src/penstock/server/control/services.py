"""Services: PostgreSQL servers that operators register. Their passwords are never shown."""

from __future__ import annotations

from datetime import datetime, timedelta
from time import monotonic
from typing import Final

from penstock.commands import read
from penstock.commands.write.services import add_service, remove_service, set_service_address
from penstock.errors import InvalidValueError, ServiceUnreachableError
from penstock.model.service import Service
from penstock.server.control import documents as c
from penstock.server.control.addresses import (
    DEFAULT,
    Addresses,
    ServiceAddress,
    shown_address,
    without_password,
)
from penstock.server.control.service_check import CheckResult, Run, check_service, with_own_state
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("managed services")


@endpoint("GET", "/managed-services", answers={200: c.ServiceList})
async def list_services(call: Call) -> c.ServiceList:
    """The services with their last known state. `local` is the server's own database."""
    found = [await with_own_state(each, call.run) for each in await call.run(read.services())]
    return c.ServiceList([_document(each, call.context.database.dsn) for each in found])


@endpoint("POST", "/managed-services", body=c.NewService, answers={201: c.Service},
          problems=(409,))  # fmt: skip
async def create_service(call: Call) -> c.Service:
    """Register a PostgreSQL and test the connection. `status` has the result of the test."""
    body: c.NewService = call.body
    addresses = call.context.settings.addresses
    address = addresses.stored(body.dsn, body.password, body.password_file)
    command = add_service(
        body.name,
        address.dsn,
        secret=address.secret,
        password_file=address.password_file,
        created_by=call.principal.name,
    )
    id = await call.act(command, "add service", body.name)
    if call.connection is None:  # otherwise it is not committed yet
        await call.context.monitor.check(id)
    return await _shown(call, id)


@endpoint("GET", "/managed-services/{service}", answers={200: c.Service},
          problems=(404,))  # fmt: skip
async def show_service(call: Call) -> c.Service:
    """One service, by its id or name, with its last known state."""
    return await _shown(call, call.path["service"])


@endpoint("PATCH", "/managed-services/{service}", body=c.ServiceChange, answers={200: c.Service},
          problems=(404, 409))  # fmt: skip
async def change_service(call: Call) -> c.Service:
    """Change the address or the password. Queues and tasks stay, and waiting tasks continue."""
    body: c.ServiceChange = call.body
    found = await call.run(read.service(call.path["service"]))
    addresses = call.context.settings.addresses
    changed = changed_address(addresses, found, body.dsn, body.password, body.password_file)
    tested = None
    if body.check:
        tested = await check_change(call.run, addresses, found, changed, "send `check` as false")
    command = set_service_address(
        found.id, changed.dsn, secret=changed.secret, password_file=changed.password_file
    )
    await call.act(command, "change service", found.name)
    if call.connection is None:
        await call.context.monitor.changed(found.id, changed, tested)
    return await _shown(call, found.id)


@endpoint("POST", "/managed-services/{service}/check", answers={200: c.Service},
          problems=(404,))  # fmt: skip
async def check_service_now(call: Call) -> c.Service:
    """Test the connection to a service now."""
    found = await call.run(read.service(call.path["service"]))
    if found.dsn is not None:
        await call.context.monitor.check(found.id)
    return await _shown(call, found.id)


@endpoint("DELETE", "/managed-services/{service}", answers={200: c.Service},
          problems=(404,))  # fmt: skip
async def delete_service(call: Call) -> c.Service:
    """Remove a service and its queues from the registry. Its databases do not change."""
    found = await call.run(read.service(call.path["service"]))
    if found.dsn is None:
        raise InvalidValueError(
            "service 'local' is the database of the server, which cannot be removed",
            field="service",
        )
    await call.act(remove_service(found.id), "remove service", found.name)
    return _document(found, call.context.database.dsn)


def changed_address(
    addresses: Addresses,
    service: Service,
    dsn: str | None,
    password: str | None,
    password_file: str | None = None,
) -> ServiceAddress:
    """The address with the change. Another address without a password keeps the password."""
    if service.dsn is None:
        raise InvalidValueError(
            "the address of service 'local' cannot be changed: it is the database of the server",
            hint="Set PENSTOCK_DSN, and restart the server.",
            field="service",
        )
    if dsn is None:
        is_other = password is not None or password_file is not None
        dsn = without_password(service.dsn) if is_other else service.dsn
    changed = addresses.stored(dsn, password, password_file)
    if changed.secret is None and changed.password_file is None:
        return ServiceAddress(changed.dsn, service.secret, service.password_file)
    return changed


async def check_change(
    run: Run, addresses: Addresses, service: Service, changed: ServiceAddress, otherwise: str
) -> CheckResult:
    """Test another address. ServiceUnreachableError, with the reason, if the test fails."""
    began: datetime = await run(read.clock())
    started = monotonic()

    def now() -> datetime:
        return began + timedelta(seconds=monotonic() - started)

    tested = await check_service(addresses.conninfo(changed, DEFAULT), now)
    if tested.error is not None:
        raise ServiceUnreachableError(
            f"service {service.name!r} was not changed, because the test failed: {tested.error}",
            hint=f"Correct the address or the password, or {otherwise}.",
            service=service.name,
        )
    return tested


async def _shown(call: Call, name: str) -> c.Service:
    found = await with_own_state(await call.run(read.service(name)), call.run)
    return _document(found, call.context.database.dsn)


def _document(service: Service, home: str) -> c.Service:
    address = ServiceAddress(service.dsn or home)
    return c.Service(
        id=service.id,
        name=service.name,
        created_at=service.created_at.replace(microsecond=0),
        database_name=address.database_name,
        status=c.service_status(service),
        **shown_address(address.dsn),
    )
