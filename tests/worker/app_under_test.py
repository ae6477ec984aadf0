"""An application for `penstock worker`: what it does is written to $RUNS, a line each."""

from __future__ import annotations

import asyncio
import os
import time

from penstock import App

app = App()


def note(what: str, message: object) -> None:
    line = f"{what} {getattr(message, 'id', '')} {getattr(message, 'attempt', '')}\n"
    with open(os.environ["RUNS"], "a", encoding="ascii") as file:
        file.write(line)


@app.handler("quick")
async def quick(message: object) -> None:
    note("quick", message)


@app.handler("slow", concurrency=4)
async def slow(message: object) -> None:
    note("begun", message)
    await asyncio.sleep(message.payload)  # type: ignore[attr-defined]
    note("ended", message)


@app.handler("stuck", concurrency=2)
def stuck(message: object) -> None:
    note("stuck", message)
    time.sleep(message.payload)  # type: ignore[attr-defined]
