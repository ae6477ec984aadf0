"""`manage.py penstock_worker`: run the tasks and handlers of the project."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import click
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.autoreload import get_child_arguments
from django.utils.module_loading import autodiscover_modules, import_string

from penstock.cli import logs
from penstock.cli.child_process import end_with_parent
from penstock.cli.reloading import run_reloading
from penstock.cli.worker import parse_address
from penstock.django import App
from penstock.django.database import dsn
from penstock.errors import PenstockError, QueueNotFoundError
from penstock.worker import Worker
from penstock.worker.metrics import MetricsServer
from penstock.worker.worker import CONCURRENCY, GRACE_SECONDS

logger = logging.getLogger("penstock.worker")


class Command(BaseCommand):
    help = (
        "Runs the tasks and handlers of the project until SIGTERM or Ctrl-C. Both drain: nothing "
        "more is claimed, handlers finish, and messages that were not started are given back. A "
        "second signal does not wait."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add(
            "--app",
            default="penstock.django.app",
            help="Path of the App. Default: %(default)s.",
        )
        add("--queue", action="append", dest="queues", help="Serve only this queue. Repeatable.")
        add(
            "--concurrency",
            type=int,
            default=CONCURRENCY,
            help="Run this many messages of a queue at once, unless its handler sets a number. "
            "Default: %(default)s.",
        )
        add(
            "--grace",
            type=float,
            default=GRACE_SECONDS,
            help="Give handlers this many seconds to finish after SIGTERM. Default: %(default)s.",
        )
        add("--name", help="Name the worker. Default: host:pid and random letters.")
        add(
            "--no-wake-ups",
            action="store_true",
            help="Poll instead of LISTEN, for transaction poolers.",
        )
        add("--metrics", metavar="[HOST:]PORT", help="Serve metrics for Prometheus here.")
        add(
            "--reload",
            action="store_true",
            help="Drain and start again when a Python file of the project changes.",
        )
        add("--child-of-reloader", action="store_true", help="For --reload itself.")

    def handle(self, **options: Any) -> None:
        if not logging.getLogger().handlers and not logging.getLogger("penstock").handlers:
            # The project's LOGGING says nothing about it.
            logs.set_up("info", as_json=False)
        if options["reload"]:
            arguments = [each for each in get_child_arguments() if each != "--reload"]
            run_reloading([*arguments, "--child-of-reloader"], _project_directory())
            return
        if options["child_of_reloader"]:
            end_with_parent()
        try:
            _run(_worker(options), options["metrics"])
        except QueueNotFoundError as error:
            hint = "Create it with `manage.py migrate`, which creates the queues of all tasks."
            raise CommandError(f"{error.message}. {hint}") from None
        except PenstockError as error:
            raise CommandError(str(error)) from None


def _worker(options: dict[str, Any]) -> Worker:
    app = load_app(options["app"])
    return Worker(
        app,
        dsn(app.using),
        queues=options["queues"],
        concurrency=options["concurrency"],
        grace=options["grace"],
        name=options["name"],
        wake_ups=not options["no_wake_ups"],
        # What cannot listen cannot keep prepared statements either.
        prepare_threshold=None if options["no_wake_ups"] else 5,
    )


def load_app(path: str) -> App:
    """The App at a path, with the tasks of all installed apps."""
    autodiscover_modules("tasks")
    try:
        found = import_string(path)
    except ImportError as error:
        raise CommandError(f"--app {path}: {error}") from None
    if not isinstance(found, App):
        raise CommandError(
            f"--app {path} is not a penstock.django.App. Handlers of any other App would keep "
            "connections that a restart of the database has closed."
        )
    found.serve_django_tasks()
    return found


def _run(worker: Worker, metrics: str | None) -> None:
    server = None
    if metrics is not None:
        try:
            server = MetricsServer(worker, *parse_address(metrics))
        except click.BadParameter as error:
            raise CommandError(f"--metrics: {error.message}") from None
        logger.info("metrics are at %s", server.address)
    try:
        asyncio.run(worker.run())
    finally:
        if server is not None:
            server.stop()


def _project_directory() -> Path:
    base = getattr(settings, "BASE_DIR", None)
    return Path(base) if base else Path(sys.path[0] or ".").resolve()
