"""An error of the server. `transport.problems` makes the response of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class HttpError(Exception):
    """An error that the server itself raises, not the queue."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.hint = hint
        self.headers = dict(headers or {})
        self.fields = fields
