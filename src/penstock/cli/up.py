"""`penstock up`: a database with the schema in it and the HTTP server, for as long as it runs."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import click
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from rich.panel import Panel
from rich.text import Text

from penstock.cli.command_classes import Verb
from penstock.cli.screen import Screen
from penstock.cli.session import Session, connect, pass_session, run_once
from penstock.cli.up_demo import LOG, check_embedded, running_demo
from penstock.cli.up_lake import running_lake, why_not
from penstock.commands.command import Command
from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migrations import Migrator
from penstock.server.auth.first_key import FILE, admin_key
from penstock.server.auth.tokens import LINK_SECONDS, sign_in_path
from penstock.server.settings import ServerSettings
from penstock.settings import Settings

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TRY = ("queue create hello", """enqueue hello '{"to": "you"}'""", "claim hello")


class Stopped(BaseException):
    """A signal requested the end. Not an Exception, so that no handler swallows it."""


@click.command(cls=Verb)
@click.option("--host", metavar="ADDRESS", help="Listen on this address. Default: 127.0.0.1.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Listen on this port. Default: 8080. 0 chooses a free one.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    help="Start this many server processes on the port, for several cores. Default: 1.",
)
@click.option("--no-server", is_flag=True, help="Start only the database, without HTTP.")
@click.option("--no-lake", is_flag=True, help="Do not fill a lake.")
@click.option(
    "--demo",
    is_flag=True,
    help="Run a small web shop on the embedded PostgreSQL, to fill the UI with data.",
)
@pass_session
def up(session: Session, /, no_server: bool, no_lake: bool, demo: bool, **chosen: Any) -> None:
    """Start the database, the schema and the HTTP server, until Ctrl-C.

    It uses the PostgreSQL of --dsn or the environment, or else the embedded
    one. Ctrl-C or SIGTERM stops everything that it started. If Spark is
    installed, it lands the history of the embedded PostgreSQL in a lake every
    minute, for the analytics of the UI.

    With --demo, a worker and steady traffic run as well, on queues whose names
    begin with demo-, and without a lake. `penstock demo remove` removes them.
    """
    if demo:
        check_embedded(session.settings())
    no_server = no_server or _server_is_missing(session)
    server = None if no_server else ServerSettings.from_environment(**chosen)
    try:
        with _raising_on_signals(), _database(session.settings()) as (dsn, found):
            with connect(dsn) as connection:
                migrator = Migrator(connection)
                migrator.up()
                version = migrator.status().current
            shown = without_password(dsn)
            embedded = session.settings().dsn is None
            ready = {"dsn": shown, "schema_version": version, "embedded": embedded, **found}
            # A lake keeps what it landed, so the demo could not be removed completely.
            with (
                _demo(session, dsn, wanted=demo) as shop,
                _lake(session, dsn, wanted=embedded and not no_lake and not demo) as lake,
            ):
                ready |= shop | lake
                _run(session, dsn, server, lambda extra: _announce(session, ready | extra))
    except Stopped:
        if not session.json:
            session.screen.err.print("stopped")


def _server_is_missing(session: Session) -> bool:
    if find_spec("starlette") is not None and find_spec("uvicorn") is not None:
        return False
    session.screen.err.print("HTTP is off, because it needs `pip install penstock[server]`")
    return True


@contextmanager
def _lake(session: Session, dsn: str, *, wanted: bool) -> Iterator[dict[str, str]]:
    if not wanted:
        yield {}
    elif missing := why_not():
        yield {"lake_missing": missing}
    else:
        with running_lake(dsn, session.settings().home) as path:
            yield {"lake": path}


@contextmanager
def _demo(session: Session, dsn: str, *, wanted: bool) -> Iterator[dict[str, Any]]:
    if not wanted:
        yield {}
        return
    home = session.settings().home
    with running_demo(dsn, home) as queues:
        removal = remove_command(session.settings())
        yield {"demo": {"queues": queues, "log": str(home / LOG), "remove": removal}}


def _run(
    session: Session,
    dsn: str,
    server: ServerSettings | None,
    ready: Callable[[dict[str, Any]], None],
) -> None:
    """Run until a signal arrives, then raise Stopped."""
    if server is None:
        ready({})
        threading.Event().wait()
        return
    # Imported here, because importing the web framework takes longer than most commands.
    from penstock.server.transport.serving import serve as serve_one
    from penstock.server.transport.supervisor import serve_many

    home = session.settings().home if session.settings().dsn is None else None

    def run(command: Command[Any]) -> Any:
        return run_once(dsn, command)

    def answers(url: str) -> None:
        link = None if key is None else (server.public_url or url) + sign_in_path(run, key)
        file = None if key is None or home is None else str(home / FILE)
        ready({"url": url, "sign_in_url": link, "admin_key_file": file})

    key = admin_key(run, server, home)
    serve = serve_one if server.processes == 1 else serve_many
    serve(dsn, server, answers)
    _ignore_signals()
    raise Stopped


def _announce(session: Session, ready: dict[str, Any]) -> None:
    commands = _commands(ready["dsn"], session.settings())
    session.show(ready, lambda screen: _welcome(screen, ready, commands))
    session.screen.out.file.flush()


@contextmanager
def _raising_on_signals() -> Iterator[None]:
    """Both signals end the body. A second one must not interrupt the stop."""

    def handle(number: int, frame: FrameType | None) -> None:
        _do_nothing_on_signals()
        raise Stopped

    # A signal that is ignored stays ignored, as with nohup and in background jobs of a shell.
    chosen = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, handle) for each in chosen}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _do_nothing_on_signals() -> None:
    """Replace the handlers by one that does nothing, which a signal that has already arrived gets.

    Python would print a traceback for a signal that arrived before it was ignored.
    """
    for each in SIGNALS:
        signal.signal(each, lambda number, frame: None)


def _ignore_signals() -> None:
    """Ignore them in this process and in the processes that stop the database."""
    _do_nothing_on_signals()
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)


@contextmanager
def _database(settings: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    """The DSN, the data directory of the embedded server, and whether it was already running."""
    if settings.dsn is not None:
        yield settings.dsn, {}
        return
    with EmbeddedPostgres.start(settings.home) as server:
        found = {"data_directory": str(server.data_directory), "joined": server.joined}
        try:
            yield server.dsn, found
        finally:
            _ignore_signals()


def without_password(dsn: str) -> str:
    """The user's DSN, as it may be shown on a screen and in a log."""
    secrets = conninfo_to_dict(dsn).keys() & {"password", "sslpassword"}
    return make_conninfo(dsn, **dict.fromkeys(secrets, "***")) if secrets else dsn


def _commands(dsn: str, settings: Settings) -> list[str]:
    """Three commands to try in another shell."""
    first = [] if _is_usual(settings) else [f"export PENSTOCK_DSN={shlex.quote(dsn)}"]
    return [*first, *(f"{program_name()} {words}" for words in TRY)]


def remove_command(settings: Settings) -> str:
    """The command that removes the demo of this home, for another shell."""
    home = "" if _is_usual(settings) else f"PENSTOCK_HOME={shlex.quote(str(settings.home))} "
    return f"{home}{program_name()} demo remove"


def _is_usual(settings: Settings) -> bool:
    return settings == Settings.from_environment(environment={})


def program_name() -> str:
    """`penstock` if the shell finds it, otherwise its path, such as .venv/bin/penstock."""
    script, found = Path(sys.argv[0]), shutil.which("penstock")
    if found and (script.name != "penstock" or Path(found).samefile(script)):
        return "penstock"
    if script.name == "penstock":
        return shlex.quote(sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m penstock.cli"


def _welcome(screen: Screen, ready: Mapping[str, Any], commands: list[str]) -> None:
    """Text that users copy is at the end of its line."""
    screen.line("Penstock is running, and its schema is installed.")
    screen.line(f"DSN: {ready['dsn']}")
    if "data_directory" in ready:
        screen.line(f"Data directory: {ready['data_directory']}")
    if ready.get("joined"):
        screen.line("This PostgreSQL was already running. Other processes use it too.")
    if "url" in ready:
        screen.line(f"Server: {ready['url']}")
        if ready["sign_in_url"]:
            minutes = LINK_SECONDS // 60
            screen.line(f"Sign in, once and within {minutes} minutes: {ready['sign_in_url']}")
            screen.line(f"Admin key, for later: {ready['admin_key_file']}")
        screen.line(f"HTTP interface: {ready['url']}/docs")
    if "lake" in ready:
        screen.line(f"Lake, brought up to date every minute: {ready['lake']}")
    elif "lake_missing" in ready:
        screen.line(f"No lake, and no charts from it: {ready['lake_missing']}")
    if "demo" in ready:
        screen.line(f"Demo queues: {', '.join(ready['demo']['queues'])}")
        screen.line(f"Log of the demo: {ready['demo']['log']}")
        screen.line(f"Remove the demo, once it is stopped: {ready['demo']['remove']}")
    text = "\n".join(commands)
    if screen.interactive:
        screen.out.print(Panel.fit(Text(text), title="try, in another terminal"))
    else:
        screen.line(f"Try, in another terminal:\n{text}")
    screen.line("Ctrl-C stops it.")
