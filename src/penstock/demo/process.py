"""The process that `penstock up --demo` starts: the worker and the traffic."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress

from penstock import AsyncClient, Worker
from penstock.demo.app import app
from penstock.demo.installation import WORKER
from penstock.demo.traffic import produce

# Shorter than the longest handler: Ctrl-C at a terminal should not take 15 seconds.
GRACE_SECONDS = 1.0


async def run() -> None:
    """Run until SIGTERM."""
    async with AsyncClient(max_size=1) as client:
        traffic = asyncio.create_task(produce(client))
        try:
            await Worker(app, grace=GRACE_SECONDS, name=f"{WORKER}-{os.getpid()}").run()
        finally:
            traffic.cancel()
            with suppress(asyncio.CancelledError):
                await traffic


def main() -> None:
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s")
    # Handlers fail on purpose, and the UI shows it. The log has only the errors of the demo itself.
    logging.getLogger("penstock.worker").setLevel(logging.CRITICAL)
    asyncio.run(run())
