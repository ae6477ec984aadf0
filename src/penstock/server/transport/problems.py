"""Errors as `application/problem+json` (RFC 9457): what was wrong, which field, what is allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import psycopg

from penstock.errors import (
    DatabaseUnavailableError,
    PenstockError,
    PermissionDeniedError,
    from_database_error,
)
from penstock.server.database import SILENT
from penstock.server.http_error import HttpError as HttpError

# Classes of SQLSTATEs that can be retried: deadlocks and serialization failures, insufficient
# resources, lock and statement timeouts, operator intervention, I/O errors, read-only sessions.
_PASSING: Final = frozenset({"25", "40", "53", "55", "57", "58"})
MEDIA_TYPE: Final = "application/problem+json"


class Problem(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The body of a response with a status of 400 or more."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str | None = None
    field: str | None = None
    allowed: str | None = None
    fields: dict[str, Any] = {}
    retryable: bool = False
    request_id: str | None = None


def describe(error: BaseException) -> tuple[Problem, dict[str, str]]:
    """The problem for an exception, and its headers."""
    if isinstance(error, HttpError):
        problem = _problem(error.status, error.code, error.detail, error.hint, error.fields)
        problem.retryable = error.status in (429, 503)
        return problem, error.headers
    known = error if isinstance(error, PenstockError) else from_database_error(error)
    if isinstance(known, DatabaseUnavailableError):
        # Its text names hosts and sockets, which callers without a key must not see.
        text = known.message if known.message == SILENT else "the database is not available"
        return _unavailable(type(known).__name__, text, known.retryable)
    if isinstance(known, PermissionDeniedError) and "scope" not in known.fields:
        text = "the server's database user lacks a privilege"
        return _unavailable("DatabasePermissionError", text, retryable=False)
    if known is not None and known.http_status != 500:
        code = type(known).__name__
        headers = {"Retry-After": "1"} if known.http_status in (429, 503) else {}
        problem = _problem(known.http_status, code, known.message, known.hint, dict(known.fields))
        problem.retryable = known.retryable
        return problem, headers
    if isinstance(error, psycopg.Error):
        text = error.diag.message_primary or str(error) or type(error).__name__
        if (error.sqlstate or "")[:2] in _PASSING:
            return _unavailable(type(error).__name__, f"the database refused the statement: {text}")
        if isinstance(error, psycopg.DataError):  # for example a NUL character
            return _problem(
                422, "InvalidValueError", f"the database refuses a value: {text}", None
            ), {}
    return unforeseen(), {}


def _unavailable(code: str, detail: str, retryable: bool = True) -> tuple[Problem, dict[str, str]]:
    problem = _problem(503, code, detail, "Try again in a second; the server's log says more.")
    problem.retryable = retryable
    return problem, {"Retry-After": "1"}


def unforeseen() -> Problem:
    return _problem(
        500,
        "InternalError",
        "an unexpected error occurred",
        "The server's log has the details under this request id.",
    )


def _problem(
    status: int,
    code: str,
    detail: str,
    hint: str | None,
    fields: Mapping[str, Any] | None = None,
) -> Problem:
    fields = dict(fields or {})
    return Problem(
        type=f"urn:penstock:problem:{_dashed(code)}",
        title=_dashed(code).replace("-", " ").capitalize(),
        status=status,
        detail=detail,
        code=code,
        hint=hint,
        field=_text(fields.pop("field", None)),
        allowed=_text(fields.pop("allowed", None)),
        fields={name: _text_id(name, value) for name, value in fields.items()},
    )


def _text_id(name: str, value: Any) -> Any:
    """Ids are strings over HTTP, because JavaScript rounds large numbers."""
    if name in ("id", "batch") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if name == "ids" and isinstance(value, list):
        return [str(each) for each in value]
    return value


_WORD_END: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _dashed(code: str) -> str:
    return _WORD_END.sub("-", code.removesuffix("Error")).lower()


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
