"""The delivery that the running code works on, if it runs in a worker."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

# Any: the worker, which sets it, is a layer above.
current_delivery: Final[ContextVar[Any]] = ContextVar("penstock_delivery", default=None)
