"""`penstock schedule`: cron rules that enqueue messages."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.parameters import time
from penstock.cli.pausing import add_pause_and_resume
from penstock.cli.queue_settings import parse_pairs
from penstock.cli.screen import Screen, cell
from penstock.cli.session import Session, pass_session, yes_option
from penstock.cli.worker import load
from penstock.client import AsyncClient, Client
from penstock.model.schedule import Schedule, ScheduleOptions

OPTIONS = ("payload", *ScheduleOptions.__annotations__)
CHANGES = ("queue", "cron", *OPTIONS)


@click.group(cls=Verbs)
def schedule() -> None:
    """List, create, change, pause and fire schedules."""


@schedule.command("list")
@pass_session
def list_schedules(session: Session) -> None:
    """List the schedules, and when each fires next."""
    with session.client() as client:
        found = client.schedules()
    session.show({"schedules": found}, lambda screen: _show_schedules(screen, found))


def _show_schedules(screen: Screen, found: list[Schedule]) -> None:
    if not found:
        screen.line("no schedules yet; create one with `penstock schedule create NAME QUEUE CRON`")
        return
    columns = ["name", "queue", "cron", "time_zone", "paused", "next_fire_at", "last_fire_at"]
    if any(each.last_error for each in found):
        columns.append("last_error")
    screen.table(columns, [[getattr(each, name) for name in columns] for each in found])


@schedule.command()
@click.argument("name")
@pass_session
def show(session: Session, name: str) -> None:
    """Show schedule NAME: what it enqueues, and when."""
    with session.client() as client:
        _show(session, client.schedule(name))


def _show(session: Session, found: Schedule) -> None:
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    session.show(found, lambda screen: screen.fields(fields))


@schedule.command()
@click.argument("name")
@click.argument("queue")
@click.argument("cron")
@click.argument("settings", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--exist-ok", is_flag=True, help="Do not fail if the schedule exists.")
@pass_session
def create(
    session: Session, name: str, queue: str, cron: str, settings: tuple[str, ...], exist_ok: bool
) -> None:
    """Enqueue into QUEUE whenever the rule CRON fires, as schedule NAME.

    CRON is five fields in one argument: minute, hour, day of month, month,
    day of week; or @hourly, @daily, @weekly, @monthly, @yearly; or a
    period such as @every 30s.
    """
    options: Any = parse_pairs(settings, OPTIONS)
    with session.client() as client:
        created = client.create_schedule(name, queue, cron, exist_ok=exist_ok, **options)
        found = client.schedule(name)
    first = cell(found.next_fire_at)
    text = f"schedule {name} fires next at {first}"
    text = text if created else f"schedule {name} already exists"
    document = {"schedule": name, "created": created, "next_fire_at": found.next_fire_at}
    session.show(document, text)


@schedule.command("set")
@click.argument("name")
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, required=True)
@pass_session
def set_schedule(session: Session, name: str, settings: tuple[str, ...]) -> None:
    """Change settings of schedule NAME. `key=default` resets one."""
    changes: Any = parse_pairs(settings, CHANGES)
    with session.client() as client:
        client.set_schedule(name, **changes)
        _show(session, client.schedule(name))


add_pause_and_resume(
    schedule,
    Client.pause_schedule,
    Client.resume_schedule,
    pause_help="Stop firing schedule NAME.",
    resume_help="Fire schedule NAME again. Fires during the pause are skipped.",
)


@schedule.command()
@click.argument("name", required=False)
@pass_session
def fire(session: Session, name: str | None) -> None:
    """Fire schedule NAME now, or all schedules that are due.

    Workers fire due schedules. Without workers, call this from cron.
    """
    with session.client() as client:
        if name is None:
            fired = client.fire_schedules()
            session.show(fired, f"enqueued {fired.count} messages")
        else:
            message_id = client.fire_schedule(name)
            session.show({"schedule": name, "id": message_id}, f"enqueued message {message_id}")


@schedule.command()
@click.argument("name")
@yes_option
@pass_session
def drop(session: Session, name: str, yes: bool) -> None:
    """Drop schedule NAME. The messages that it enqueued stay."""
    with session.client() as client:
        client.schedule(name)
        session.confirm(f"Drop schedule {name}?", yes)
        client.drop_schedule(name)
    session.show({"schedule": name, "dropped": True}, f"dropped schedule {name}")


@schedule.command()
@click.argument("app", metavar="MODULE:APP")
@click.option(
    "--drop-others",
    is_flag=True,
    help="Drop schedules that the app declared earlier and no longer declares.",
)
@pass_session
def sync(session: Session, app: str, drop_others: bool) -> None:
    """Create and change the schedules that an application declares."""
    declared = load(app).schedules

    async def bring() -> tuple[list[str], list[str]]:
        async with AsyncClient(session.dsn) as client:
            changed = await declared.bring(client.run)
            return changed, await declared.drop_others(client.run) if drop_others else []

    changed, dropped = asyncio.run(bring())
    lines = [f"created or changed schedule {name}" for name in changed]
    lines += [f"dropped schedule {name}" for name in dropped]
    text = "\n".join(lines) or "all schedules were up to date"
    session.show({"changed": changed, "dropped": dropped}, text)


@schedule.command("next")
@click.argument("cron")
@click.option("--time-zone", default="UTC", show_default=True, help="Use this time zone.")
@click.option("-n", "--count", type=int, default=5, show_default=True, help="Show this many.")
@click.option("--after", type=time, help="Start after this time. Default: now.")
@pass_session
def next_fires(session: Session, cron: str, time_zone: str, count: int, after: Any) -> None:
    """Show the next times at which the rule CRON fires."""
    with session.client() as client:
        times = client.next_fires(cron, time_zone, count, after=after)
    text = "\n".join(cell(each) for each in times) or "it never fires"
    session.show({"next_fires": times}, text)
