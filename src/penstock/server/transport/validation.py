"""Turns msgspec's errors into problems: 400 for malformed input, 422 for values out of range."""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec

from penstock.server.transport.problems import HttpError

_LOOKED_AT: Final = 1024 * 1024
_WHERE: Final = re.compile(r"^(.*?)(?: - at `(?:key in )?\$(.*)`)?$", re.DOTALL)
_RANGE: Final = re.compile(
    r"Expected `[^`]+` (?:[<>]=? |of length |matching |that's a )|^Invalid enum"
)
_NAMED: Final = re.compile(r"(?:missing required|contains unknown) field `([^`]*)`")


def invalid(error: Exception, what: str, raw: bytes = b"") -> HttpError:
    """`what` names the part of the request, `raw` is its content."""
    if isinstance(error, RecursionError):
        return HttpError(400, "MalformedBody", f"the {what} is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return HttpError(400, "MalformedBody", f"the {what} is not UTF-8")
    code = "MalformedQuery" if what == "query" else "MalformedBody"
    if not isinstance(error, msgspec.ValidationError):
        return _malformed(error, what, raw)
    found = _WHERE.match(str(error))
    reason, path = (found[1], (found[2] or "").lstrip(".")) if found else (str(error), "")
    named = _NAMED.search(reason)
    field = ".".join(part for part in (path, named[1] if named else "") if part) or None
    shown = reason[:1].lower() + reason[1:]
    where = f" in {path}" if path else ""
    status, code = (422, "InvalidValueError") if _RANGE.search(reason) else (400, code)
    allowed = reason.removeprefix("Expected ") if reason.startswith("Expected ") else None
    return HttpError(
        status, code, f"the {what} is not valid{where}: {shown}", field=field, allowed=allowed
    )


def _malformed(error: Exception, what: str, raw: bytes) -> HttpError:
    """The position of a syntax error. msgspec does not report it, but Python's parser does."""
    text = str(error)
    if len(raw) <= _LOOKED_AT:
        try:
            json.loads(raw)
        except json.JSONDecodeError as found:
            text = str(found)
        except ValueError:
            pass
        else:
            return HttpError(
                422,
                "PayloadNotStorableError",
                f"the {what} contains a lone surrogate, which is not valid text",
                hint="PostgreSQL cannot store it in JSON. Remove it, or send the payload as bytes.",
            )
    return HttpError(400, "MalformedBody", f"the {what} is not JSON: {text[:1].lower()}{text[1:]}")
