"""How a command fails: one line with the remedy, and an exit code."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import click
import psycopg

from penstock.cli.screen import as_json, printable
from penstock.errors import PenstockError, from_database_error

UNEXPECTED = 1
USAGE = 2
INTERRUPTED = 130


def report(error: Exception, *, as_document: bool, debug: bool) -> int:
    """Print the error on stderr, and return its exit code."""
    if debug:
        traceback.print_exception(error)
    problem = describe(error)
    if as_document:
        sys.stderr.write(as_json({"error": problem}) + "\n")
    else:
        sys.stderr.write(f"error: {_sentence(problem)}\n")
    return int(problem["exit_code"])


def describe(error: Exception) -> dict[str, Any]:
    """The error as the fields of its JSON document."""
    known = error if isinstance(error, PenstockError) else from_database_error(error)
    if known is not None:
        return _problem(
            type(known).__name__,
            known.message,
            known.hint,
            known.exit_code,
            sqlstate=known.sqlstate,
            fields=dict(known.fields),
            retryable=known.retryable,
        )
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, psycopg.Error):
        return _database(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return _problem("OSError", f"{where}{error.strerror}", None, UNEXPECTED)
    return _problem(
        type(error).__name__,
        f"unexpected {type(error).__name__}: {error}",
        "Run it again with --debug to see where it happened.",
        UNEXPECTED,
    )


def _problem(
    kind: str,
    message: str,
    hint: str | None,
    exit_code: int,
    sqlstate: str | None = None,
    fields: dict[str, Any] | None = None,
    retryable: bool = False,
) -> dict[str, Any]:
    return {
        "type": kind,
        "message": message,
        "hint": hint,
        "sqlstate": sqlstate,
        "fields": fields or {},
        "exit_code": exit_code,
        "retryable": retryable,
    }


def _usage(error: click.ClickException) -> dict[str, Any]:
    context = getattr(error, "ctx", None)
    message = error.format_message()
    hint = f"See `{context.command_path} --help`." if context is not None else None
    kind = "UsageError" if error.exit_code == USAGE else "Refused"
    return _problem(kind, message[:1].lower() + message[1:], hint, error.exit_code)


def _database(error: psycopg.Error) -> dict[str, Any]:
    """Errors of PostgreSQL that are not about Penstock."""
    message = error.diag.message_primary or str(error) or type(error).__name__
    hint = error.diag.message_hint
    return _problem(type(error).__name__, message, hint, UNEXPECTED, sqlstate=error.sqlstate)


def _sentence(problem: dict[str, Any]) -> str:
    """`Fact. Remedy.` on one line, even if the texts have several."""
    parts = [" ".join(str(part).split()) for part in (problem["message"], problem["hint"]) if part]
    head = parts[0] if parts[0].endswith((".", "?", "!")) else f"{parts[0]}."
    return printable(" ".join([head, *parts[1:]]) if len(parts) > 1 else parts[0])
