"""Services of the control plane: their state, their queues, their tasks, and actions on them."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from penstock.commands import read
from penstock.commands.command import Command
from penstock.commands.write.services import (
    add_service,
    cancel_service_task,
    forget_service_queue,
    remove_service,
    retry_service_queue,
    retry_service_task,
    set_service_address,
)
from penstock.errors import TaskNotFoundError
from penstock.model.service import Service
from penstock.server.control.addresses import ServiceAddress, shown_address
from penstock.server.control.service_check import ServiceState, with_own_state
from penstock.server.control.services import changed_address, check_change
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
TASKS: Final = 100
STATUSES: Final = ("all", "pending", "running", "completed", "failed", "cancelled")


@pages("/services")
async def services(visit: Visit) -> View:
    found = [await with_own_state(each, visit.run) for each in await visit.run(read.services())]
    rows = [_row(each, visit.context.database.dsn) for each in found]
    return View("services.html", "Services", {"services": rows})


@pages("/services/{service}")
async def service(visit: Visit) -> View:
    found = await visit.run(read.service(visit.path["service"]))
    found = await with_own_state(found, visit.run)
    status = visit.asked_one("status", STATUSES)
    tasks = read.service_tasks(
        found.id, status=None if status == "all" else status, limit=TASKS  # type: ignore[arg-type]
    )  # fmt: skip
    data = {
        "service": _row(found, visit.context.database.dsn),
        "queues": [_fields(each) for each in await visit.run(read.service_queues(found.id))],
        "tasks": [_fields(each) for each in await visit.run(tasks)],
        "status": status,
        "statuses": STATUSES,
    }
    return View("service.html", f"Service {found.name}", data)


def _row(service: Service, home: str) -> dict[str, Any]:
    address = ServiceAddress(service.dsn or home)
    return {
        "id": service.id,
        "name": service.name,
        "is_local": service.dsn is None,
        **shown_address(address.dsn),
        "database_name": address.database_name,
        "reachable": None if service.checked_at is None else not service.is_down,
        "checked_at": service.checked_at,
        "unreachable_since": service.down_since,
        "error_message": service.error_message,
        "known": dict.fromkeys(ServiceState.__slots__) | dict(service.status or {}),
        "created_at": service.created_at,
        "created_by": service.created_by,
    }


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in type(row).__slots__}


def _page(name: str) -> str:
    return f"/services/{quote(name, safe='')}"


class AddService(Act):
    path = "/services/add"

    async def ask(self, visit: Visit) -> Question:
        return Question(
            title="Add a service",
            button="Add",
            back="/services",
            text=["The connection is tested, and the page of services shows the result."],
            fields=[
                Field(name="name", label="Name", value=visit.asked("name") or "", required=True),
                *_address_fields(visit, required=True),
            ],
        )

    async def do(self, visit: Visit) -> Deed:
        name = visit.asked("name") or ""
        address = visit.context.settings.addresses.stored(
            visit.asked("dsn") or "", visit.asked("password")
        )
        command = add_service(
            name, address.dsn, secret=address.secret, created_by=visit.principal.name
        )
        return Deed(command=command, act="add service", target=name, to="/services")


class ChangeService(Act):
    path = "/services/{service}/change"

    async def ask(self, visit: Visit) -> Question:
        found = await visit.run(read.service(visit.path["service"]))
        return Question(
            title=f"Change service {found.name}",
            button="Change",
            back=_page(found.name),
            text=[
                "Its queues and tasks stay. An empty field keeps its value. The new address is"
                " tested first, and refused if the test fails."
            ],
            fields=_address_fields(visit, required=False),
        )

    async def do(self, visit: Visit) -> Deed:
        found = await visit.run(read.service(visit.path["service"]))
        addresses = visit.context.settings.addresses
        changed = changed_address(addresses, found, visit.asked("dsn"), visit.asked("password"))
        otherwise = "use `penstock service set --no-check`"
        await check_change(visit.run, addresses, found, changed, otherwise)
        command = set_service_address(
            found.id, changed.dsn, secret=changed.secret, password_file=changed.password_file
        )
        return Deed(command=command, act="change service", target=found.name,
                    to=_page(found.name))  # fmt: skip


def _address_fields(visit: Visit, required: bool) -> list[Field]:
    return [
        Field(
            name="dsn",
            label="Address",
            value=visit.asked("dsn") or "",
            required=required,
            hint="postgresql://user@host:port/database or key=value pairs",
        ),
        Field(name="password", label="Password", kind="password"),
    ]


class _OnService(Act):
    """An action without input."""

    title: str
    button: str
    text: str
    act: str
    danger = False

    async def ask(self, visit: Visit) -> Question:
        found = await visit.run(read.service(visit.path["service"]))
        return Question(
            title=f"{self.title} {await self._target(visit)}",
            button=self.button,
            back=_page(found.name),
            text=[self.text],
            facts={"Service": found.name},
            danger=self.danger,
        )

    async def do(self, visit: Visit) -> Deed:
        found = await visit.run(read.service(visit.path["service"]))
        target = await self._target(visit)
        return Deed(
            command=self._command(visit, found),
            act=self.act,
            target=target if target == found.name else f"{found.name}/{target}",
            to="/services" if target == found.name else _page(found.name),
        )

    async def _target(self, visit: Visit) -> str:
        return (await visit.run(read.service(visit.path["service"]))).name

    def _command(self, visit: Visit, service: Service) -> Command[Any]:
        raise NotImplementedError


class RemoveService(_OnService):
    path = "/services/{service}/remove"
    title, button, act, danger = "Remove service", "Remove", "remove service", True
    text = "Its queues leave the registry. Its databases do not change."

    def _command(self, visit: Visit, service: Service) -> Command[Any]:
        return remove_service(service.id)


class _OnQueue(_OnService):
    async def _target(self, visit: Visit) -> str:
        found = await visit.run(read.service_queue(visit.path["service"], visit.path["queue"]))
        return found.name


class RetryQueue(_OnQueue):
    path = "/services/{service}/queues/{queue}/retry"
    title, button, act = "Retry queue", "Retry", "retry managed queue"
    text = "The failed task runs again."

    def _command(self, visit: Visit, service: Service) -> Command[Any]:
        queue = visit.path["queue"]
        return retry_service_queue(service.id, queue, created_by=visit.principal.name)


class ForgetQueue(_OnQueue):
    path = "/services/{service}/queues/{queue}/forget"
    title, button, act, danger = "Remove queue", "Remove", "delete managed queue", True
    text = "It leaves the registry by force. The service is not asked, and keeps the queue."

    def _command(self, visit: Visit, service: Service) -> Command[Any]:
        queue = visit.path["queue"]
        return forget_service_queue(service.id, queue, removed_by=visit.principal.name)


class _OnTask(_OnService):
    async def _target(self, visit: Visit) -> str:
        service, task = visit.path["service"], visit.path["task"]
        found = await visit.run(read.service_tasks(service, task=task, limit=1))
        if not found:
            raise TaskNotFoundError(
                f"task {task!r:.200} does not exist on service {service!r:.200}",
                hint="Tasks are deleted a week after they have finished.",
            )
        return found[0].id


class CancelTask(_OnTask):
    path = "/services/{service}/tasks/{task}/cancel"
    title, button, act = "Cancel task", "Cancel the task", "cancel task"
    text = "A task that has started cannot be cancelled."

    def _command(self, visit: Visit, service: Service) -> Command[Any]:
        task, by = read.task_id(visit.path["task"]), visit.principal.name
        return cancel_service_task(service.id, task, cancelled_by=by)


class RetryTask(_OnTask):
    path = "/services/{service}/tasks/{task}/retry"
    title, button, act = "Retry task", "Retry", "retry task"
    text = "A second retry enqueues no message twice."

    def _command(self, visit: Visit, service: Service) -> Command[Any]:
        return retry_service_task(service.id, read.task_id(visit.path["task"]))


ACTS: Final = (
    AddService(),
    ChangeService(),
    RemoveService(),
    RetryQueue(),
    ForgetQueue(),
    CancelTask(),
    RetryTask(),
)
