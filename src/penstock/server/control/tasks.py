"""Tasks of services: list, cancel and retry them."""

from __future__ import annotations

from typing import Final

from penstock.commands import read
from penstock.commands.write.services import cancel_service_task, retry_service_task
from penstock.errors import TaskNotFoundError
from penstock.server.control import documents as c
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("managed services")
_PATH: Final = "/managed-services/{service}/tasks"


@endpoint("GET", _PATH, query=c.TasksQuery, answers={200: c.ServiceTasks}, problems=(404,))
async def list_tasks(call: Call) -> c.ServiceTasks:
    """The tasks of a service, the latest first. They are kept for a week after their end."""
    query: c.TasksQuery = call.query
    found = await call.run(read.service(call.path["service"]))
    tasks = await call.run(
        read.service_tasks(
            found.id,
            status=query.status,
            queue=query.queue,
            before=query.before,
            limit=query.limit,
        )
    )
    last = tasks[-1].id if len(tasks) == query.limit else None
    return c.ServiceTasks([c.task_document(task) for task in tasks], last)


@endpoint("GET", _PATH + "/{task}", answers={200: c.ServiceTask}, problems=(404,))
async def show_task(call: Call) -> c.ServiceTask:
    """One task of a service."""
    return await _shown(call)


@endpoint("POST", _PATH + "/{task}/cancel", answers={200: c.ServiceTask}, problems=(404, 409))
async def cancel_task(call: Call) -> c.ServiceTask:
    """Cancel a task that has not started."""
    service, task = call.path["service"], read.task_id(call.path["task"])
    command = cancel_service_task(service, task, cancelled_by=call.principal.name)
    await call.act(command, "cancel task", f"{service}/{task}")
    return await _shown(call)


@endpoint("POST", _PATH + "/{task}/retry", answers={200: c.ServiceTask}, problems=(404, 409))
async def retry_task(call: Call) -> c.ServiceTask:
    """Carry out a failed or cancelled task again. Its messages are enqueued once."""
    service, task = call.path["service"], read.task_id(call.path["task"])
    await call.act(retry_service_task(service, task), "retry task", f"{service}/{task}")
    call.context.runner.nudge()
    return await _shown(call)


async def _shown(call: Call) -> c.ServiceTask:
    service, task = call.path["service"], call.path["task"]
    found = await call.run(read.service_tasks(service, task=task, limit=1))
    if not found:
        raise TaskNotFoundError(
            f"task {task!r:.200} does not exist on service {service!r:.200}",
            hint="Tasks are deleted a week after they have finished.",
            task=task[:200],
        )
    return c.task_document(found[0])
