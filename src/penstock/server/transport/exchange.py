"""One request and its response, for the log and the metrics."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Sequence
from itertools import count
from typing import Final

from starlette.types import Scope

from penstock.server.proxies import Network, caller_address

log: Final = logging.getLogger("penstock.server")
# Request ids only have to be distinct, so a fast random source is enough.
_process: Final = secrets.token_hex(6)
_number: Final = count(1)
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_NO_GZIP: Final = re.compile(rb"gzip\s*;\s*q=0(\.0*)?\s*(,|$)")


class Exchange:
    """A request, from its first byte to the last byte of its response."""

    __slots__ = (
        "actor",
        "address",
        "gzip",
        "headers",
        "request_id",
        "route",
        "sent",
        "started",
        "status",
        "waited",
    )

    def __init__(self, scope: Scope, trusted: Sequence[Network] = ()) -> None:
        self.started = time.perf_counter()
        # Headers by name. The first one counts if a name is repeated.
        self.headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        asked = self.headers.get(b"x-request-id")
        if asked is not None and _REQUEST_ID.fullmatch(asked):
            self.request_id = asked.decode("ascii")
        else:
            self.request_id = f"{_process}-{next(_number):x}"
        accepted = self.headers.get(b"accept-encoding", b"")
        self.gzip = b"gzip" in accepted and not _NO_GZIP.search(accepted)
        self.address = caller_address(scope, trusted)
        self.route = ""
        self.actor: str | None = None
        self.status = 0
        self.sent = 0
        self.waited = 0.0
