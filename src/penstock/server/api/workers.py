"""Workers: what they do, and commands to them."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from penstock.commands import read
from penstock.commands.write.workers import command_worker
from penstock.model.monitoring import Heartbeat, QueueWork
from penstock.server import fields as f
from penstock.server.auth.worker_access import only_queue, operated_worker
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("workers")


class Run(Struct):
    """A message in its handler, at the time of the report."""

    id: str
    attempt: int
    seconds: float


class WorkerQueue(Struct, kw_only=True):
    """What a worker does for one topic. The figures are of the last five minutes."""

    topic: str
    running: int
    concurrency: int | None
    done_per_minute: float
    failed_per_minute: float
    p50_seconds: float | None
    p95_seconds: float | None
    runs: list[Run]


class Worker(Struct, kw_only=True):
    """A worker process, as it last reported."""

    worker: str
    state: Literal["running", "quiet", "draining", "silent"]
    started_at: datetime
    seen_at: datetime
    hostname: str | None
    pid: int | None
    version: str | None
    takes_commands: bool
    queues: list[WorkerQueue]


class Workers(Struct):
    items: list[Worker]
    next: str | None = None


class WorkerOrder(Struct, forbid_unknown_fields=True):
    """quiet: claim no more. resume: claim again. stop: finish the running messages, and end."""

    worker: f.WorkerName
    command: Literal["quiet", "resume", "stop"]


@endpoint("GET", "/api/workers", answers={200: Workers})
async def list_workers(call: Call) -> Workers:
    """The workers that reported within a day, with those of their topics that the key may read."""
    found = await call.run(read.heartbeats())
    shown = [(beat, call.principal.only("read", beat.queues)) for beat in found]
    return Workers(
        [
            _document(beat, topics)
            for beat, topics in shown
            if topics or call.principal.unlimited("read")
        ]
    )


@endpoint(
    "POST",
    "/api/workers/command",
    body=WorkerOrder,
    answers={202: WorkerOrder},
    problems=(404, 409),
)
async def send_command(call: Call) -> WorkerOrder:
    """Send a command to a worker. It gets it at once, or with its next report, within 10 s."""
    order: WorkerOrder = call.body
    worker = await operated_worker(call.principal, call.run, order.worker)
    command = command_worker(order.worker, order.command)
    await call.act(command, f"{order.command} worker", order.worker, queue=only_queue(worker))
    return order


def _document(beat: Heartbeat, topics: list[str]) -> Worker:
    return Worker(
        worker=beat.worker,
        state=beat.state if beat.alive else "silent",  # type: ignore[arg-type]
        started_at=beat.started_at,
        seen_at=beat.seen_at,
        hostname=beat.hostname,
        pid=beat.pid,
        version=beat.version,
        takes_commands=beat.takes_commands,
        queues=[_queue(topic, beat.queues[topic]) for topic in topics],
    )


def _queue(topic: str, work: QueueWork) -> WorkerQueue:
    return WorkerQueue(
        topic=topic,
        running=work.running,
        concurrency=work.concurrency,
        done_per_minute=work.done_per_minute,
        failed_per_minute=work.failed_per_minute,
        p50_seconds=work.p50_seconds,
        p95_seconds=work.p95_seconds,
        runs=[Run(each.id, each.attempt, each.seconds) for each in work.runs],
    )
