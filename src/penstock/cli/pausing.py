"""The commands `pause` and `resume` of a group: `penstock queue`, `penstock schedule`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from penstock.cli.session import Session, pass_session
from penstock.client import Client

Change = Callable[[Client, str], Any]


def add_pause_and_resume(
    group: click.Group, pause: Change, resume: Change, *, pause_help: str, resume_help: str
) -> None:
    """Add both commands to a group, whose name is that of what they change."""

    def add(verb: str, change: Change, help: str, *, paused: bool) -> None:
        @group.command(verb, help=help)
        @click.argument("name")
        @pass_session
        def command(session: Session, name: str) -> None:
            with session.client() as client:
                change(client, name)
            state = "is paused" if paused else "runs"
            session.show({group.name: name, "paused": paused}, f"{group.name} {name} {state}")

    add("pause", pause, pause_help, paused=True)
    add("resume", resume, resume_help, paused=False)
