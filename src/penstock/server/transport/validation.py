"""Turns msgspec's errors into problems: 400 for malformed input, 422 for values out of range."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, Final, NoReturn

import msgspec

from penstock.server.transport.field_rules import allowed_values, field_names
from penstock.server.transport.problems import HttpError

_LOOKED_AT: Final = 1024 * 1024
_WHERE: Final = re.compile(r"^(.*?)(?: - at `(?:key in )?\$(.*)`)?$", re.DOTALL)
_RANGE: Final = re.compile(
    r"Expected `[^`]+` (?:[<>]=? |of length |matching |that's a )|^Invalid enum"
)
_MISSING: Final = re.compile(r"missing required field `([^`]*)`")
_UNKNOWN: Final = re.compile(r"contains unknown field `([^`]*)`")


def invalid(error: Exception, what: str, kind: Any, raw: bytes = b"") -> HttpError:
    """`what` names the part of the request, `kind` is its type, `raw` is its content."""
    if isinstance(error, RecursionError):
        return HttpError(400, "MalformedBody", f"the {what} is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return HttpError(400, "MalformedBody", f"the {what} is not UTF-8")
    if not isinstance(error, msgspec.ValidationError):
        return _malformed(error, what, raw)
    code = "MalformedQuery" if what == "query" else "MalformedBody"
    found = _WHERE.match(str(error))
    reason, path = (found[1], (found[2] or "").lstrip(".")) if found else (str(error), "")
    if missing := _MISSING.search(reason):
        field = _joined(path, missing[1])
        allowed = allowed_values(kind, field, with_null=what != "query")
        return HttpError(400, code, f"the {what} lacks {field}", field=field, allowed=allowed)
    if unknown := _UNKNOWN.search(reason):
        return _unknown(code, what, kind, path, unknown[1])
    if reason == "Number out of range":
        detail = f"{path or f'the {what}'} has a number that is too large"
        return HttpError(422, "InvalidValueError", detail, field=path or None,
                         hint="Send large numbers as text.")  # fmt: skip
    allowed = allowed_values(kind, path, with_null=what != "query")
    subject = path or f"the {what}"
    detail = f"{subject} must be {allowed}" if allowed else f"{subject} has a value of a wrong type"
    if _RANGE.search(reason):
        return HttpError(422, "InvalidValueError", detail, field=path or None, allowed=allowed)
    return HttpError(400, code, detail, field=path or None, allowed=allowed)


def _unknown(code: str, what: str, kind: Any, path: str, name: str) -> HttpError:
    names = ", ".join(field_names(kind, path))
    field = _joined(path, name)
    part = "parameter" if what == "query" else "field"
    if not names:
        return HttpError(400, code, f"this call takes no {part} {field!r:.100}", field=field)
    return HttpError(
        400,
        code,
        f"the {what} has an unknown {part}, {field!r:.100}",
        hint=f"Allowed: {names}.",
        field=field,
        allowed=names,
    )


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _malformed(error: Exception, what: str, raw: bytes) -> HttpError:
    """The position of a syntax error. msgspec does not report it, but Python's parser does."""
    text = str(error)
    if raw.startswith(codecs.BOM_UTF8):
        text = "it begins with a byte order mark"
    elif len(raw) <= _LOOKED_AT:
        try:
            json.loads(raw.decode(), parse_constant=_refuse_constant)
        except (json.JSONDecodeError, _NotJsonError) as found:
            text = str(found)
        except (RecursionError, UnicodeDecodeError) as found:
            return invalid(found, what, None)
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


class _NotJsonError(ValueError):
    """A constant that Python's parser accepts, and JSON does not have."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJsonError(f"it contains {name}")
