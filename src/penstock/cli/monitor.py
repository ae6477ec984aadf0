"""`penstock top` and `activity`: the busiest queues, and the actions of operators."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.cli.command_classes import Verb
from penstock.cli.screen import Screen, cell, duration
from penstock.cli.session import Session, pass_session
from penstock.client import Client
from penstock.commands import read
from penstock.errors import DatabaseUnavailableError
from penstock.model.access import Activity
from penstock.model.monitoring import FinishRate

TOP_COLUMNS = (
    *("queue", "ready", "scheduled", "leased", "dead"),
    *("oldest ready", "finished / min", "failed / min"),
)


@click.command(cls=Verb)
@click.option("--once", is_flag=True, help="Show the numbers once and end.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.5, 3600),
    default=2.0,
    show_default=True,
    help="Refresh after this many seconds.",
)
@pass_session
def top(session: Session, once: bool, seconds: float) -> None:
    """Show the busiest queues, live until Ctrl-C.

    It continues while the database does not answer, and shows the reason.
    """
    with session.client() as client:
        if once or session.json or not session.screen.interactive:
            workers, rows = _look(client)
            document = {
                "workers": workers,
                "queues": [dict(zip(_FIELDS, row, strict=True)) for row in rows],
            }
            session.show(document, lambda screen: screen.table(TOP_COLUMNS, map(_shown, rows)))
            return
        with Live(console=session.screen.out, screen=True, auto_refresh=False) as live:
            shown: RenderableType = ""
            while True:
                try:
                    shown = _picture(*_look(client), live.console.height)
                    live.update(shown, refresh=True)
                except DatabaseUnavailableError as error:
                    text = f"The database does not answer: {error}. The last known state:"
                    live.update(Group(Text(text, "bold red"), shown), refresh=True)
                time.sleep(seconds)


_FIELDS = (
    *("queue", "ready", "scheduled", "leased", "dead"),
    *("oldest_ready_seconds", "finished_per_minute", "failed_per_minute"),
    *("paused", "estimated"),
)


def _look(client: Client) -> tuple[int, list[list[Any]]]:
    """The number of running workers, and the queues, the longest first."""
    finished = _per_minute(client.run(read.recent()))
    failed = _per_minute(client.run(read.recent_attempts()))
    paused = {each.name for each in client.run(read.queues()) if each.settings.paused}
    rows: list[list[Any]] = [
        [
            *(stats.queue, stats.ready, stats.scheduled, stats.leased, stats.dead),
            *(stats.oldest_ready_seconds, round(finished[stats.queue], 1)),
            round(failed[stats.queue], 1),
            *(stats.queue in paused, stats.estimated),
        ]
        for stats in client.run(read.all_stats())
    ]
    rows.sort(key=lambda row: (-(row[1] + row[3]), row[0]))
    return sum(beat.alive for beat in client.run(read.heartbeats())), rows


def _per_minute(rates: list[FinishRate]) -> defaultdict[str, float]:
    """The sum of the rates of each queue."""
    found: defaultdict[str, float] = defaultdict(float)
    for rate in rates:
        found[rate.queue] += rate.count * 60 / max(rate.seconds, 1)
    return found


def _shown(row: list[Any]) -> list[Any]:
    queue, *counts, oldest, finished, failed, paused, estimated = row
    about = "~" if estimated else ""
    name = f"{queue} (paused)" if paused else queue
    return [name, *(f"{about}{count}" for count in counts), duration(oldest), finished, failed]


def _picture(workers: int, rows: list[list[Any]], height: int) -> Group:
    ready, leased, dead = (sum(row[n] for row in rows) for n in (1, 3, 4))
    about = "~" if any(row[-1] for row in rows) else ""
    head = (
        f"{len(rows)} queues, {about}{ready} ready, {about}{leased} leased, {about}{dead} dead, "
        f"{workers} workers"
    )
    table = Table(header_style="bold", expand=True)
    for number, name in enumerate(TOP_COLUMNS):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows[: max(1, height - 5)]:
        table.add_row(*(Text(cell(value)) for value in _shown(row)))
    return Group(Text(head), table)


@click.command(cls=Verb)
@click.option("--actor", help="List only actions of this API key.")
@click.option("--target", help="List only actions on this queue or schedule.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="List at most this many.",
)
@pass_session
def activity(session: Session, actor: str | None, target: str | None, limit: int) -> None:
    """List the actions of operators, the latest first."""
    with session.client() as client:
        found = client.run(read.activity(actor=actor, target=target, limit=limit))
    none = "no recorded action matches" if actor or target else "no actions are recorded"
    session.show({"activity": found}, lambda screen: _show_activity(screen, found, none))


def _show_activity(screen: Screen, found: list[Activity], none: str) -> None:
    if not found:
        screen.line(none)
        return
    columns = ["at", "actor", "act", "target", "details"]
    screen.table(columns, [[a.at, a.actor, a.act, a.target, a.details] for a in found])
