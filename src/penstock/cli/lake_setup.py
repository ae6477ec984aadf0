"""Opens the lake of a command line: settings first, Spark last."""

from __future__ import annotations

import functools
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import logs
from penstock.cli.parameters import duration
from penstock.cli.session import Session
from penstock.db.locate import locate
from penstock.errors import ConfigurationError
from penstock.settings import lake_path, lake_project

if TYPE_CHECKING:
    from penstock.lake.lake import Lake
    from penstock.lake.registry import Registry
    from penstock.lake.run_steps import Observer, RunStep
    from penstock.spark.options import Service

LAYERS = ("bronze", "silver", "gold")


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """The paths of the lake and its project, and Spark's settings."""

    path: str
    conf: dict[str, str]
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Reporting:
    """Where a command reports its steps, besides the screen."""

    metrics_file: Path | None = None
    log_format: str | None = None

    @property
    def is_logged(self) -> bool:
        return self.log_format is not None


@dataclass(frozen=True, slots=True)
class Opened:
    lake: Lake
    registry: Registry
    service: Service
    dsn: str


Command = Callable[..., Any]


def location_options(command: Command) -> Command:
    """`--path`, `--project` and `--conf`, as one argument."""

    @functools.wraps(command)
    def with_location(
        *args: Any, path: str | None, project: str | None, conf: tuple[str, ...], **others: Any
    ) -> Any:
        location = LakeLocation(lake_path(path), dict(map(_setting, conf)), lake_project(project))
        return command(*args, location=location, **others)

    path_option = click.option(
        "--path",
        metavar="PATH",
        help="Use the lake at this directory or URI. Default: PENSTOCK_LAKE, then a directory "
        "in PENSTOCK_HOME.",
    )
    conf_option = click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", help="Set a setting of Spark. Repeatable."
    )
    project_option = click.option(
        "--project",
        metavar="PATH",
        help="Use the project in this directory or file. Default: PENSTOCK_LAKE_PROJECT.",
    )
    return path_option(project_option(conf_option(with_location)))


def report_options(command: Command) -> Command:
    """`--metrics-file` and `--log-format`, as one argument."""

    @functools.wraps(command)
    def with_reporting(
        *args: Any, metrics_file: Path | None, log_format: str | None, **others: Any
    ) -> Any:
        if log_format is not None:
            logs.set_up("info", as_json=log_format == "json")
        return command(*args, reporting=Reporting(metrics_file, log_format), **others)

    metrics_option = click.option(
        "--metrics-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write metrics to this file, for Prometheus.",
    )
    log_option = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="Log each step to stderr, as text or as JSON, instead of showing progress.",
    )
    return metrics_option(log_option(with_reporting))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise click.BadParameter(
            f"{text!r} is not a setting of Spark; write it as spark.name=value",
            param_hint="--conf",
        )
    return name, value


def keep_options(command: Command) -> Command:
    for layer in reversed(LAYERS):
        text = f"Remove days of {layer} that are older. Default: keep all."
        command = click.option(f"--keep-{layer}", type=duration, help=text)(command)
    return command


def keeping(options: Mapping[str, timedelta | None]) -> dict[str, timedelta]:
    return {name.removeprefix("keep_"): age for name, age in options.items() if age is not None}


@contextmanager
def opened(
    session: Session,
    location: LakeLocation,
    *,
    create: bool = False,
    spark: bool = True,
    **about: str | None,
) -> Iterator[Opened]:
    """The lake and its registration. Errors of either appear before Spark starts."""
    with registered(session) as registry:
        from penstock.spark.service_connection import Server

        # A standby, a missing or newer schema, or a wrong password.
        Server(registry.service).close()
        dsn = registry.service.address()
        with _opening(session, location, spark=spark, create=create, about=about, dsn=dsn) as make:
            lake = make(registry.writing)
            if location.project is not None and spark:
                from penstock.lake.project.loading import load_project

                lake.project = load_project(location.project)
            registry.name = lake.about.name
            yield Opened(lake, registry, registry.service, dsn)


@contextmanager
def opened_to_read(session: Session, location: LakeLocation) -> Iterator[Lake]:
    """The lake alone. Reading it needs no database."""
    require_spark()
    with _opening(session, location) as make:
        yield make(None)


@contextmanager
def _opening(
    session: Session,
    location: LakeLocation,
    *,
    spark: bool = True,
    create: bool = False,
    about: Mapping[str, str | None] | None = None,
    dsn: str | None = None,
) -> Iterator[Callable[[Any], Lake]]:
    from penstock.lake.lake import Lake
    from penstock.lake.storage.filesystem import local_path
    from penstock.lake.storage.formats import check_format
    from penstock.spark.error_messages import explained

    def make(guard: Any, started: Any = None) -> Lake:
        if create:
            return Lake.open_or_create(
                location.path, started, guard=guard, dsn=dsn, **(about or {})
            )
        return Lake.open(location.path, started, guard, dsn)

    with explained(location.path, click.ClickException, click.Abort):
        if about and (format := about.get("format")):
            check_format(format, location.path, about.get("catalog"))
        is_local = local_path(location.path) is not None
        if is_local:
            # Checked or created at once, so that a wrong path is an error before Spark starts.
            make(None)
        started = start_spark(session, location) if spark or not is_local else None
        yield lambda guard: make(guard, started)


@contextmanager
def registered(session: Session) -> Iterator[Registry]:
    """The database with the registry of lakes."""
    require_spark()
    from penstock.lake.registry import Registry
    from penstock.spark.options import DEFAULT_SERVICE, Service

    registry = Registry(Service(DEFAULT_SERVICE, locate(session.dsn)), "")
    try:
        yield registry
    finally:
        registry.close()


@contextmanager
def reported(found: Opened, name: str, reporting: Reporting) -> Iterator[RunStep]:
    """A command as one step: for its metrics, its log, and OpenLineage if it is configured."""
    from penstock.lake import metrics
    from penstock.lake.run_steps import RunSteps, log_command

    observers = step_observers(found, log_command if reporting.is_logged else None)
    step = None
    try:
        with RunSteps(observers).step(name) as step:
            yield step
    finally:
        if step is not None and reporting.metrics_file is not None:
            text = metrics.of_command(found.lake.about.name, step)
            metrics.write(reporting.metrics_file, text)


def step_observers(found: Opened, log: Observer | None) -> list[Observer]:
    """The observers of a run: the log, and OpenLineage if it is configured."""
    from penstock.lake import lineage

    observers: list[Observer] = [log] if log is not None else []
    if lineage.is_configured():
        server = found.registry.connection().info
        database = f"postgres://{server.host}:{server.port}"
        observers.append(
            lineage.Lineage(
                lineage.lineage_client(), found.lake.about.name, found.lake.storage.root, database
            )
        )
    return observers


def require_spark() -> None:
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise ConfigurationError(
            "Spark is not installed", hint='Install it with: pip install "penstock[spark]"'
        )


def start_spark(session: Session, location: LakeLocation) -> Any:
    """Without output: the JVM writes to a file, unless --debug is given."""
    from penstock.spark.session import spark_session

    def start() -> Any:
        return spark_session("penstock lake", location.conf)

    if session.debug:
        return start()
    # An error of a query is reported once, by us.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    with session.screen.err.status("starting Spark"), _stderr_in_a_file():
        return start()


@contextmanager
def _stderr_in_a_file() -> Iterator[None]:
    """The JVM keeps the stderr with which it was started.

    The file is new and its name cannot be guessed: other users may write to the directory.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    handle, _ = tempfile.mkstemp(prefix=f"penstock-spark-{os.getpid()}-", suffix=".log")
    try:
        os.dup2(handle, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(handle)
