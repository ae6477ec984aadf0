"""`penstock up`: a database with the schema in it, for as long as it runs."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from rich.panel import Panel
from rich.text import Text

from penstock.cli.commands import Verb
from penstock.cli.screen import Screen
from penstock.cli.session import Session, connect, pass_session
from penstock.embedded import EmbeddedPostgres
from penstock.migrations import Migrator
from penstock.settings import Settings

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TRY = ("queue create hello", """enqueue hello '{"to": "you"}'""", "claim hello")


class Stopped(BaseException):
    """A signal asked for the end. Not an Exception: nothing on the way may swallow it."""


@click.command(cls=Verb)
@pass_session
def up(session: Session) -> None:
    """Start a database with the schema in it, until Ctrl-C.

    It is the embedded PostgreSQL, or the one that --dsn or the environment
    names. Ctrl-C or SIGTERM stops what was started; a database that was named
    is left running.
    """
    try:
        with _raising_on_signals(), _database(session.settings()) as dsn:
            with connect(dsn) as connection:
                migrator = Migrator(connection)
                migrator.up()
                version = migrator.status().current
            shown = without_password(dsn)
            embedded = session.settings().dsn is None
            ready = {"dsn": shown, "schema_version": version, "embedded": embedded}
            commands = _commands(shown, session.settings())
            session.show(ready, lambda screen: _welcome(screen, shown, commands))
            session.screen.out.file.flush()
            threading.Event().wait()
    except Stopped:
        if not session.json:
            session.screen.err.print("stopped")


@contextmanager
def _raising_on_signals() -> Iterator[None]:
    """Either signal ends the body; a second one must not cut the stopping short."""

    def handle(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped

    # One that is ignored stays so: nohup, and a shell's background jobs, mean it.
    chosen = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, handle) for each in chosen}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _database(settings: Settings) -> Iterator[str]:
    if settings.dsn is not None:
        yield settings.dsn
        return
    with EmbeddedPostgres.start(settings.home) as server:
        yield server.dsn


def without_password(dsn: str) -> str:
    """What the caller named, fit for a screen and a log."""
    return make_conninfo(dsn, password="***") if "password" in conninfo_to_dict(dsn) else dsn


def _commands(dsn: str, settings: Settings) -> list[str]:
    """Three to try, to be pasted as they are into a shell that knows nothing of this one."""
    usual = settings == Settings.from_environment(environment={})
    first = [] if usual else [f"export PENSTOCK_DSN={shlex.quote(dsn)}"]
    return [*first, *(f"{program_name()} {words}" for words in TRY)]


def program_name() -> str:
    """`penstock` where the shell finds it; else where it is, such as .venv/bin/penstock."""
    script, found = Path(sys.argv[0]), shutil.which("penstock")
    if found and (script.name != "penstock" or Path(found).samefile(script)):
        return "penstock"
    if script.name == "penstock":
        return shlex.quote(sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m penstock.cli"


def _welcome(screen: Screen, dsn: str, commands: list[str]) -> None:
    """The DSN ends its line: it is there to be copied."""
    screen.line("Penstock is up: the database runs, and the schema is in it.")
    screen.line(f"DSN: {dsn}")
    text = "\n".join(commands)
    if screen.interactive:
        screen.out.print(Panel.fit(Text(text), title="try, in another terminal"))
    else:
        screen.line(f"Try, in another terminal:\n{text}")
    screen.line("Ctrl-C stops it.")
