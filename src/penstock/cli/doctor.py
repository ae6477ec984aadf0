"""`penstock doctor`: checks this database, and says what to do about problems."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import click
import psycopg
from psycopg.rows import dict_row
from rich.text import Text

from penstock.cli import doctor_findings, errors
from penstock.cli.command_classes import Verb
from penstock.cli.doctor_findings import Finding
from penstock.cli.screen import Screen, printable
from penstock.cli.session import Session, pass_session
from penstock.db.migrations import Migrator
from penstock.errors import PenstockError
from penstock.spark.java import find_java
from penstock.sql.loader import load_query

STYLES = {"ok": "green", "hint": "cyan", "warning": "yellow", "error": "bold red"}


@click.command(cls=Verb)
@pass_session
def doctor(session: Session) -> int:
    """Check the database, and print what to do about problems.

    It checks the connection, the version, the schema, the roles with their
    grants, the clock, the horizon, the settings, and Spark with its Java. The
    horizon is the oldest transaction for which PostgreSQL must keep old rows.
    The report names the sessions that hold it back. The exit code is 0 if
    Penstock can work.
    """
    holders: list[dict[str, Any]] = []
    findings = list(_examine(session, holders))
    exit_code = next((f.exit_code for f in findings if f.exit_code), 0)
    document = {"ok": exit_code == 0, "checks": findings, "horizon": holders}
    session.show(document, lambda screen: _show(screen, findings))
    return exit_code


def _examine(session: Session, holders: list[dict[str, Any]]) -> Iterator[Finding]:
    """The connection first, because every other check needs it."""
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(session.connection())
        except Exception as error:
            yield _failed("connection", error)
            return
        yield _connection(session, connection)
        server = read(connection, "server")[0]
        holders += read(connection, "horizon")
        yield doctor_findings.version(server)
        yield from doctor_findings.primary(server)
        yield _schema(connection)
        yield from _grants(connection)
        yield _clock(connection)
        yield from doctor_findings.horizon(server, holders)
        yield from doctor_findings.settings(server["settings"])
        yield from _consumers(connection)
    yield _spark()


def _failed(check: str, error: Exception) -> Finding:
    problem = errors.describe(error)
    return Finding(check, "error", problem["message"], problem["hint"], problem["exit_code"])


def _schema(connection: psycopg.Connection[Any]) -> Finding:
    try:
        return doctor_findings.schema(Migrator(connection).status())
    except (PenstockError, psycopg.Error) as error:  # for example without the permission to look
        return _failed("schema", error)


def _grants(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    with contextlib.suppress(psycopg.Error):  # an older schema, or no permission to look
        yield doctor_findings.grants(read(connection, "grants"))


def _clock(connection: psycopg.Connection[Any]) -> Finding:
    before = datetime.now(UTC)
    shown = read(connection, "clock")[0]["shown_at"]
    after = datetime.now(UTC)
    step = 0.0
    with contextlib.suppress(psycopg.Error):  # an older schema, or no permission to look
        step = read(connection, "clock_step")[0]["step_seconds"]
    return doctor_findings.clock((before, shown, after), step)


def _consumers(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    with contextlib.suppress(psycopg.Error):  # an older schema, or no permission to look
        yield from doctor_findings.spark_consumers(read(connection, "spark_consumers"))


def _spark() -> Finding:
    try:
        installed = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return doctor_findings.spark(None, None)
    try:
        return doctor_findings.spark(installed, find_java())
    except PenstockError as error:
        return Finding("spark", "warning", error.message, error.hint)


def _connection(session: Session, connection: psycopg.Connection[Any]) -> Finding:
    info = connection.info
    kind = "the embedded PostgreSQL" if session.settings().dsn is None else "PostgreSQL"
    where = f"database {info.dbname} on {info.host or 'localhost'} port {info.port}"
    return Finding("connection", "ok", f"{kind}, {where}, as user {info.user}")


def read(connection: psycopg.Connection[Any], name: str) -> list[dict[str, Any]]:
    """The rows of one of our queries, `sql/queries/read/<name>.sql`."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(load_query(f"read/{name}").encode()).fetchall()


def _show(screen: Screen, findings: list[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        status = Text(f"{finding.status:<8}", style=STYLES[finding.status])
        screen.out.print(
            status, Text(f"{finding.check:<{width}} "), Text(printable(finding.detail))
        )
        if finding.advice:
            screen.out.print(
                Text(f"{'':<9}{'':<{width}}  {printable(finding.advice)}", style="dim")
            )
