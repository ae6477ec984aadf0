"""A cache with a time limit. Concurrent callers of one key share one computation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final

_MOST: Final = 500


class TimedCache:
    """Values by key. Each call states how old its value may be."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[float, Any]] = {}
        self._making: dict[Hashable, asyncio.Lock] = {}

    async def get(self, key: Hashable, seconds: float, make: Callable[[], Awaitable[Any]]) -> Any:
        if len(self._making) >= _MOST:
            self._making.clear()
        lock = self._making.setdefault(key, asyncio.Lock())
        async with lock:
            found = self._answers.get(key)
            if found is not None and time.monotonic() - found[0] < seconds:
                return found[1]
            answer = await make()
            if len(self._answers) >= _MOST:
                self._answers.clear()
            self._answers[key] = (time.monotonic(), answer)
            return answer
