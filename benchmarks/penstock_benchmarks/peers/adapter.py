"""What an adapter is: one peer, spoken to through its own public interface.

A file in adapters/ is a peer. In Python it has a class `Adapter` like the one below; in JavaScript
it exports the same names. `host.py` and `host.mjs` run it in a separate process, once to enqueue
and once to work, and tell it what to do.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

Payload: TypeAlias = dict[str, Any]
Handle: TypeAlias = Callable[[Payload], Awaitable[None]]

QUEUE = "bench"


class Adapter(Protocol):
    kind: ClassVar[Literal["worker", "loop"]]
    """worker: the peer brings one. loop: it does not, so a bare claim-and-ack loop is run on it."""

    package: ClassVar[str]
    """What to ask for the version of."""

    relations: ClassVar[tuple[str, ...]]
    """LIKE patterns of schema.table: what to weigh."""

    uvloop: ClassVar[bool]
    """Does its own command line run on uvloop?"""

    parts: ClassVar[tuple[str, ...]]
    """Only these scenarios; all of them if it is left out."""

    def __init__(self, dsn: str) -> None: ...

    async def install(self) -> None:
        """Schema and queue, with the settings that its documentation recommends for speed."""

    async def open(self, role: Literal["producer", "worker"]) -> None: ...

    async def enqueue(self, payload: Payload) -> None:
        """One message, committed when this returns."""

    async def enqueue_many(self, payloads: Sequence[Payload], delay_seconds: int) -> None:
        """Some thousand at most, with the call that the peer has for many."""

    async def unfinished(self) -> bool:
        """Is there a message that is due and not settled?"""

    async def purge(self) -> None:
        """Away with all messages; nothing is running."""

    async def start(self, concurrency: int, handle: Handle, rescue_seconds: int | None) -> None:
        """Work until `stop`, with at most so many messages in work at once.

        `rescue_seconds`: give back what a worker that died held after about so long, if the peer
        can be told; None leaves it at its default.
        """

    async def stop(self) -> None:
        """Gracefully: what was begun is settled."""

    async def close(self) -> None: ...

    def settings(self) -> str:
        """What differs from the peer's defaults, in words, for the page."""


async def supervised(run: Callable[[], Awaitable[None]], pause_seconds: float = 0.5) -> None:
    """Run it again when it fails, as the supervisor of a process would."""
    while True:
        try:
            return await run()
        except Exception:
            traceback.print_exc(limit=1)
            await asyncio.sleep(pause_seconds)
