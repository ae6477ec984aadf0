"""A WSGI application that uses its client when it is imported, before gunicorn forks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from tests.forks.conftest import BACKEND

from penstock import Client

queue = Client(os.environ["PENSTOCK_DSN"], max_size=1)
queue.create_queue("orders", exist_ok=True)
BEFORE_THE_FORK = queue.run(BACKEND)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Enqueue what is asked for, and say what was stored, by which process and session."""
    [text] = parse_qs(environ["QUERY_STRING"])["text"]
    id = queue.enqueue("orders", text)
    found = {
        "stored": queue.message(id).payload,
        "process": os.getpid(),
        "backend": queue.run(BACKEND),
        "parents_backend": BEFORE_THE_FORK,
    }
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]
