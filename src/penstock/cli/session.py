"""The state of one run of the program: the options that every command accepts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import psycopg
from psycopg.conninfo import conninfo_to_dict

from penstock.cli.screen import Screen
from penstock.client.sync_client import Client
from penstock.commands.command import Command
from penstock.db.embedded import connect_dsn
from penstock.db.sync_connections import Connections
from penstock.settings import Settings

T = TypeVar("T")
# libpq waits for minutes by default. A user at a prompt does not.
CONNECT_SECONDS = 10


class Session:
    """`--dsn`, `--json` and `--debug`, and access to the database and the screen."""

    def __init__(self) -> None:
        self.dsn: str | None = None
        self.json = False
        self.debug = False
        self.screen = Screen()

    def settings(self) -> Settings:
        return Settings.from_environment(dsn=self.dsn)

    @contextmanager
    def client(self) -> Iterator[Client]:
        # A command needs one connection.
        with Client(self.dsn, min_size=1, max_size=1) as client:
            yield client

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A plain connection, for commands that work without the schema."""
        with connect(connect_dsn(self.settings())) as connection:
            yield connection

    def run(self, command: Command[T]) -> T:
        """Run a command that has no verb in the client."""
        return run_once(self.dsn, command)

    def show(self, document: Any, text: str | Callable[[Screen], None]) -> None:
        """Print the document for a script, or the text for a user."""
        if self.json:
            self.screen.document(document)
        elif callable(text):
            text(self.screen)
        else:
            self.screen.line(text)

    def confirm(self, question: str, yes: bool, *, name: str | None = None) -> None:
        """Destructive verbs ask. A script, which cannot answer, passes --yes.

        With `name`, the answer is this name. A habit of answering "yes" then removes nothing.
        """
        if yes:
            return
        if self.json or not is_answered_by_a_person():
            raise click.UsageError(f"no terminal to ask for confirmation: {question} Add --yes")
        if name is None:
            agreed = click.confirm(question, err=True)
        else:
            answer = click.prompt(
                f"{question} Type the name of the queue", default="", show_default=False, err=True
            )
            agreed = answer == name
        if not agreed:
            raise click.ClickException("nothing was done")


def run_once(dsn: str | None, command: Command[T]) -> T:
    """Run one command on a new connection."""
    connections = Connections(dsn, None, min_size=1, max_size=1, timeout=10, prepare_threshold=None)
    try:
        return connections.run(command)
    finally:
        connections.close()


def is_answered_by_a_person() -> bool:
    return sys.stdin.isatty()


def connect(dsn: str) -> psycopg.Connection[Any]:
    own = conninfo_to_dict(dsn)
    options: dict[str, Any] = {"fallback_application_name": "penstock"}
    if "connect_timeout" not in own:
        options["connect_timeout"] = CONNECT_SECONDS
    return psycopg.connect(dsn, autocommit=True, **options)


pass_session = click.make_pass_decorator(Session)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
