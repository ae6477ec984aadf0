"""Queues on services: tasks create them, remove them, enqueue to them and count them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from penstock.commands import read
from penstock.commands.payload import check_no_nul, printed_bytes
from penstock.commands.write.services import (
    adopt_queues,
    forget_service_queue,
    request_queue,
    request_removal,
    request_task,
    retry_service_queue,
)
from penstock.db.async_connections import AnyConnection
from penstock.errors import PayloadNotStorableError, PayloadTooLargeError, PenstockError
from penstock.model.service import Service, ServiceTask, TaskKind
from penstock.server.control import documents as c
from penstock.server.control.addresses import ServiceAddress
from penstock.server.control.documents import queue_document, queue_summary
from penstock.server.transport.idempotency import once
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import Call, Endpoints, Reply

endpoint: Final = Endpoints("managed services")
MAX_PAYLOAD_BYTES: Final = 256 * 1024
_PATH: Final = "/managed-services/{service}/queues"


@endpoint("POST", _PATH, body=c.NewQueue, answers={201: c.ManagedQueue},
          problems=(404, 409))  # fmt: skip
async def create_managed_queue(call: Call) -> Reply:
    """Create a queue on a service. It is Pending, then Provisioning, then Active."""
    body: c.NewQueue = call.body
    service = call.path["service"]
    call.require("operate", body.name)
    found = await _adopt(call, service)
    own = ServiceAddress(found.dsn or call.context.database.dsn)
    command = request_queue(
        service,
        body.name,
        body.database_name or own.database_name,
        visibility_timeout_seconds=body.visibility_timeout_seconds,
        max_attempts=body.max_attempts,
        dlq_enabled=body.dlq_enabled,
        created_by=call.principal.name,
    )
    id = await call.act(command, "create managed queue", f"{found.name}/{body.name}")
    made = queue_document(await call.run(read.service_queue(service, id=id)))
    made.status = "Pending"  # as it was created, although a server may have started already
    call.context.runner.nudge()
    return Reply(made, 201, {"Location": f"/managed-services/{service}/queues/{body.name}"})


@endpoint("GET", _PATH, answers={200: c.ManagedQueues}, problems=(404,))
async def list_managed_queues(call: Call) -> c.ManagedQueues:
    """The queues of a service, also those created in other ways.

    If the service cannot be reached, the queues that were known last.
    """
    service = await _adopt(call, call.path["service"])
    found = await call.run(read.service_queues(service.id))
    summaries = [queue_summary(queue) for queue in found if call.principal.may("read", queue.name)]
    return c.ManagedQueues(summaries, _status_if_down(service))


@endpoint("GET", _PATH + "/{queue}", answers={200: c.ManagedQueue}, problems=(404,))
async def show_managed_queue(call: Call) -> c.ManagedQueue:
    """One queue of a service."""
    service, name = _named(call)
    found = await _adopt(call, service)
    document = queue_document(await call.run(read.service_queue(service, name)))
    document.service_status = _status_if_down(found)
    return document


@endpoint("DELETE", _PATH + "/{queue}", query=c.ForceQuery, answers={202: c.ManagedQueue},
          problems=(404,))  # fmt: skip
async def delete_managed_queue(call: Call) -> c.ManagedQueue:
    """Remove a queue with its messages. It is Deprovisioning until it is removed."""
    service, name = _named(call)
    by = call.principal.name
    if call.query.force:
        command = forget_service_queue(service, name, removed_by=by)
    else:
        await _adopt(call, service)
        command = request_removal(service, name, created_by=by)
    id = await call.act(command, "delete managed queue", f"{service}/{name}",
                        force=call.query.force or None)  # fmt: skip
    call.context.runner.nudge()
    return queue_document(await call.run(read.service_queue(service, id=id)))


@endpoint("POST", _PATH + "/{queue}/retry", answers={202: c.ManagedQueue},
          problems=(404, 409))  # fmt: skip
async def retry_managed_queue(call: Call) -> c.ManagedQueue:
    """Try again to create or to remove a Failed queue."""
    service, name = _named(call)
    command = retry_service_queue(service, name, created_by=call.principal.name)
    id = await call.act(command, "retry managed queue", f"{service}/{name}")
    call.context.runner.nudge()
    return queue_document(await call.run(read.service_queue(service, id=id)))


@endpoint("POST", _PATH + "/{queue}/messages", body=c.BrokeredMessages,
          answers={202: c.TaskAccepted}, problems=(404, 409),
          keeps_answer=True)  # fmt: skip
async def enqueue_managed(call: Call) -> Any:
    """Enqueue up to 100 messages, all or none. The task has their ids."""
    service, name = _named(call)
    body: c.BrokeredMessages = call.body
    payloads = [_payload(each, number, name) for number, each in enumerate(body.messages)]
    delays = [each.delay_seconds for each in body.messages]
    request = msgspec.json.encode({"payloads": payloads, "delays": delays}).decode()
    return await _request(call, service, name, "enqueue", request)


@endpoint("GET", _PATH + "/{queue}/messages", query=c.TaskQuery,
          answers={200: c.EnqueueTask, 202: c.EnqueueTask}, problems=(404,))  # fmt: skip
async def poll_enqueue(call: Call) -> Reply:
    """The status of an enqueue: 202 while it is pending or running, then 200."""
    service, name = _named(call)
    task = await call.run(read.service_task(service, name, "enqueue", call.query.task_id))
    return _polled(task, c.EnqueueTask)


@endpoint("POST", _PATH + "/{queue}/stats", answers={202: c.TaskAccepted},
          problems=(404, 409), keeps_answer=True)  # fmt: skip
async def request_stats(call: Call) -> Any:
    """Count the messages of a queue. The task has the result."""
    service, name = _named(call)
    return await _request(call, service, name, "stats", None)


@endpoint("GET", _PATH + "/{queue}/stats", query=c.TaskQuery,
          answers={200: c.StatsTask, 202: c.StatsTask}, problems=(404,))  # fmt: skip
async def poll_stats(call: Call) -> Reply:
    """The counts of a queue: 202 while the task is pending or running, then 200."""
    service, name = _named(call)
    task = await call.run(read.service_task(service, name, "stats", call.query.task_id))
    return _polled(task, c.StatsTask)


def _named(call: Call) -> tuple[str, str]:
    return call.path["service"], call.path["queue"]


async def _request(call: Call, service: str, name: str, kind: TaskKind, request: str | None) -> Any:
    command = request_task(service, name, kind, request, created_by=call.principal.name)

    async def work(connection: AnyConnection | None) -> c.TaskAccepted:
        return c.TaskAccepted(await call.context.database.run(command, connection))

    try:
        accepted = await once(call, 202, work)
    except PenstockError as error:
        if error.http_status != 404:
            raise
        # It may have been created without a task.
        await _adopt(call, service)
        accepted = await once(call, 202, work)
    call.context.runner.nudge()
    return accepted


def _polled(task: ServiceTask, kind: Any) -> Reply:
    result = UNSET if task.result is None else c.task_result(task.result)
    error = task.error_message if task.status in ("failed", "cancelled") else None
    document = kind(
        task_id=task.id,
        status=task.status,
        result=result,
        error_message=error or UNSET,
        waiting_for=task.waits_for or UNSET,
    )
    return Reply(document, 202 if task.status in ("pending", "running") else 200)


def _payload(message: c.BrokeredMessage, number: int, queue: str) -> str:
    raw, field = bytes(message.payload), f"messages[{number}].payload"
    if not raw.startswith(b"{"):
        raise HttpError(
            400, "MalformedBody", f"{field} is not a JSON object", field=field, allowed="an object"
        )
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise PayloadNotStorableError(f"{field} is not UTF-8", field=field) from None
    check_no_nul(text, "payload", field=field)
    size = max(len(raw), printed_bytes(text))
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(
            f"{field} has {size} bytes; {MAX_PAYLOAD_BYTES} are allowed",
            queue=queue,
            size=size,
            limit=MAX_PAYLOAD_BYTES,
            field=field,
        )
    return text


def _status_if_down(service: Service) -> c.ServiceStatus | UnsetType:
    return c.service_status(service) if service.is_down else UNSET


async def _adopt(call: Call, service: str) -> Service:
    """Update the registry with queues that were created or dropped by SQL or by the data plane.

    A service that does not answer in a moment is not waited for: the registry answers for it.
    """
    found = await call.run(read.service(service))
    database = call.context.database
    if found.dsn is not None:
        await call.context.monitor.refresh(found)
        return await call.run(read.service(found.id))
    asked_at = await database.run(read.clock())
    queues = await database.run(read.queues())
    name = ServiceAddress(database.dsn).database_name
    await call.run(adopt_queues(found.id, name, queues, asked_at))
    return found
