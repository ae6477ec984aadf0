"""Our classes of commands: every command accepts the shared options."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.session import Session


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    # An omitted option keeps an earlier value on the line, so that `penstock --json queue list` and
    # `penstock queue list --json` are the same. An empty DSN is kept too, and refused where it is
    # read.
    if value not in (None, False) and option.name:
        setattr(ctx.ensure_object(Session), option.name, value)


def _shared_options() -> list[click.Option]:
    def option(*names: str, **extra: Any) -> click.Option:
        return click.Option(list(names), expose_value=False, callback=_remember, **extra)

    return [
        option(
            "--dsn",
            metavar="DSN",
            help="Use this PostgreSQL. Default: PENSTOCK_DSN, DATABASE_URL, the embedded one.",
        ),
        option("--json", is_flag=True, is_eager=True, help="Print one JSON document."),
        option("--debug", is_flag=True, is_eager=True, help="Print the stack trace of an error."),
    ]


def add_shared_options(command: click.Command) -> None:
    """A command with its own option of the same name keeps it."""
    taken = {name for parameter in command.params for name in parameter.opts}
    command.params.extend(o for o in _shared_options() if not taken & set(o.opts))


class Verb(click.Command):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        add_shared_options(self)


class Verbs(click.Group):
    """A group that lists its commands in the order in which they were added."""

    command_class = Verb

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        add_shared_options(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


Verbs.group_class = Verbs
