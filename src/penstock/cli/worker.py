"""`penstock worker`: run the handlers of an application."""

from __future__ import annotations

import asyncio
import difflib
import importlib
import logging
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import click

from penstock.cli import logs, parameters
from penstock.cli.command_classes import Verb
from penstock.cli.reloading import penstock_command, run_reloading
from penstock.cli.session import Session, pass_session
from penstock.errors import PenstockError
from penstock.worker import App, Worker
from penstock.worker.metrics import MetricsServer
from penstock.worker.worker import CONCURRENCY, GRACE_SECONDS

logger = logging.getLogger("penstock.worker")


def load(target: str) -> App:
    """The App of `module:name`. `name` may be left out if it is `app`."""
    module_name, _, attribute = target.partition(":")
    module = _module(module_name)
    found = getattr(module, attribute or "app", None)
    if isinstance(found, App):
        if found.managed_by is not None:
            raise click.BadParameter(f"{target!r} is run by {found.managed_by}")
        return found
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    near = difflib.get_close_matches(attribute, apps, 1) or apps
    hint = f"Did you mean {module_name}:{near[0]}?" if near else "It needs an App: app = App()."
    raise click.BadParameter(f"module {module_name!r} has no App {attribute or 'app'!r}. {hint}")


def _module(name: str) -> ModuleType:
    if not name:
        raise click.BadParameter("name the App as module:app")
    # As with `python -m`, modules in the current directory can be imported.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error  # one of its imports is missing
        raise click.BadParameter(
            f"module {name!r} is neither in this directory nor installed"
        ) from None
    except PenstockError:
        raise
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> click.ClickException:
    where = ""
    if not isinstance(error, SyntaxError):  # its text has the place
        frames = traceback.extract_tb(error.__traceback__)
        own = [each for each in frames if Path(each.filename).is_relative_to(Path.cwd())]
        frame = (own or frames)[-1]
        where = f" ({frame.filename}, line {frame.lineno})"
    return click.ClickException(
        f"module {name!r} cannot be imported: {type(error).__name__}: {error}{where}. "
        "Run it again with --debug to see the traceback."
    )


def parse_address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535 or (colon and not host):
        raise click.BadParameter(f"{text!r} is not an address; write it as 9100 or 0.0.0.0:9100")
    return host.strip("[]") or "127.0.0.1", int(port)


@click.command(cls=Verb)
@click.argument("app", metavar="MODULE:APP")
@click.option("--queue", "queues", multiple=True, help="Serve only this queue. Repeatable.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=CONCURRENCY,
    show_default=True,
    help="Run this many messages of a queue at once, unless its handler sets a number.",
)
@click.option(
    "--grace",
    type=parameters.duration,
    default=f"{GRACE_SECONDS:g}s",
    show_default=True,
    help="Give handlers this long to finish after SIGTERM.",
)
@click.option("--name", help="Name the worker. Default: host:pid and random letters.")
@click.option(
    "--no-wake-ups", is_flag=True, help="Poll instead of LISTEN, for transaction poolers."
)
@click.option(
    "--metrics",
    type=parse_address,
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus here. Default host: 127.0.0.1. Port 0 is any free one.",
)
@click.option(
    "--reload", is_flag=True, help="Start again when a Python file below this directory changes."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Log this level and above to stderr.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log lines of text, or one JSON document in each line.",
)
@pass_session
def worker(
    session: Session,
    app: str,
    queues: tuple[str, ...],
    concurrency: int,
    grace: timedelta,
    name: str | None,
    no_wake_ups: bool,
    metrics: tuple[str, int] | None,
    reload: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Run the handlers of an application until SIGTERM or Ctrl-C.

    MODULE:APP names the App, such as shop.work:app. After one of these signals
    the worker claims nothing more, waits for its handlers, and gives back the
    messages that it has not started. After a second signal it does not wait.
    """
    logs.set_up(log_level, as_json=session.json or log_format == "json")
    if reload:
        arguments = [each for each in sys.argv[1:] if each != "--reload"]
        run_reloading(penstock_command(arguments), Path.cwd())
        return
    made = Worker(
        load(app),
        session.dsn,
        queues=queues or None,
        concurrency=concurrency,
        grace=grace,
        name=name,
        wake_ups=not no_wake_ups,
        # Without notifications there is a pooler, which does not keep prepared statements either.
        prepare_threshold=None if no_wake_ups else 5,
    )
    server = None if metrics is None else MetricsServer(made, *metrics)
    if server is not None:
        logger.info("metrics are at %s", server.address)
    try:
        asyncio.run(made.run())
    finally:
        if server is not None:
            server.stop()
