"""`penstock workers`: shows the workers, and sends them commands."""

from __future__ import annotations

from getpass import getuser
from typing import Any

import click

from penstock.cli.command_classes import Verb, Verbs
from penstock.cli.screen import Screen, duration
from penstock.cli.session import Session, pass_session, yes_option
from penstock.commands import read
from penstock.commands.write.workers import WorkerCommand, recorded_command
from penstock.model.monitoring import Heartbeat, QueueWork

COLUMNS = (
    *("worker", "state", "queue", "running", "done / min", "failed / min", "p50", "p95"),
    *("longest run", "seen", "host", "pid", "version"),
)


@click.group(cls=Verbs, invoke_without_command=True)
@click.pass_context
def workers(ctx: click.Context) -> None:
    """List the workers that reported within a day, or send one a command."""
    if ctx.invoked_subcommand is None:
        _list(ctx.ensure_object(Session))


def _list(session: Session) -> None:
    with session.client() as client:
        found = client.run(read.heartbeats())
    session.show({"workers": found}, lambda screen: _show(screen, found))


def _show(screen: Screen, found: list[Heartbeat]) -> None:
    if not found:
        screen.line("no worker has reported; start one with `penstock worker module:app`")
        return
    screen.table(COLUMNS, [row for beat in found for row in _rows(beat)])


def _rows(beat: Heartbeat) -> list[list[Any]]:
    """One row for each queue of a worker, with the figures of its last five minutes."""
    state = beat.state if beat.alive else "silent"
    where = [beat.seen_at, beat.hostname, beat.pid, beat.version]
    works = list(beat.queues.items()) or [("", QueueWork())]
    return [[beat.worker, state, queue, *_figures(work), *where] for queue, work in works]


def _figures(work: QueueWork) -> list[Any]:
    longest = work.runs[0] if work.runs else None
    return [
        *(work.running, work.done_per_minute, work.failed_per_minute),
        *(duration(work.p50_seconds), duration(work.p95_seconds)),
        longest and f"{longest.id} for {duration(longest.seconds)}",
    ]


@workers.command("quiet", cls=Verb)
@click.argument("worker")
@pass_session
def quiet(session: Session, worker: str) -> None:
    """Stop a worker from claiming. Its running messages finish."""
    _send(session, worker, "quiet", "claims no more messages")


@workers.command("resume", cls=Verb)
@click.argument("worker")
@pass_session
def resume(session: Session, worker: str) -> None:
    """Let a quiet worker claim again."""
    _send(session, worker, "resume", "claims messages again")


@workers.command("stop", cls=Verb)
@click.argument("worker")
@yes_option
@pass_session
def stop(session: Session, worker: str, yes: bool) -> None:
    """End a worker after its running messages have finished.

    A supervisor such as systemd or Kubernetes may start it again.
    """
    session.confirm(f"Stop worker {worker}?", yes)
    _send(session, worker, "stop", "finishes its messages and ends")


def _send(session: Session, worker: str, command: WorkerCommand, effect: str) -> None:
    session.run(recorded_command(worker, command, f"cli:{getuser()}"))
    text = f"worker {worker} {effect}, as soon as it gets the command: within 10 seconds"
    session.show({"worker": worker, "command": command}, text)
