"""Headers that cannot be sent over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import InvalidValueError
from penstock.tasks.chain import CHAIN_HEADER


def check_headers(headers: Any, field: str) -> None:
    """Refuse the steps of a chain: a worker enqueues them to queues that the key may not use."""
    if isinstance(headers, Mapping) and CHAIN_HEADER in headers:
        raise InvalidValueError(
            f"{field} has the header {CHAIN_HEADER}, which cannot be sent over HTTP",
            hint="Enqueue the chain with chain(...).enqueue() and a connection to PostgreSQL.",
            field=field,
            allowed=f"headers without {CHAIN_HEADER}",
        )


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """The same for the arguments of a verb, in which headers and settings are JSON text."""
    given = arguments.get("headers")
    for text in given if isinstance(given, list) else [given]:
        check_headers(_read(text), "headers")
    settings = _read(arguments.get("settings"))
    if isinstance(settings, Mapping):
        check_headers(settings.get("headers"), "headers")


def _read(text: Any) -> Any:
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text)
    except ValueError:  # the database refuses it
        return None
