"""The paths of pages that others link to."""

from __future__ import annotations

from urllib.parse import quote, urlencode


def queue_path(name: str, rest: str = "") -> str:
    return f"/queues/{quote(name, safe='')}/{rest}"


def messages_path(**query: str) -> str:
    return f"/messages?{urlencode(query)}"
