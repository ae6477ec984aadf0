"""Several server processes on one socket, for a machine with several cores.

The parent serves no requests. It replaces a process that dies, and forwards the signal to stop.
The processes share only the socket and the database. They end when the parent ends, even if it is
killed.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Final

import uvloop

from penstock.errors import PenstockError
from penstock.server.settings import ServerSettings
from penstock.server.transport.serving import (
    SIGNALS,
    Server,
    listen,
    make_server,
    raise_file_limit,
    url_of,
)

log: Final = logging.getLogger("penstock.server")
# A process that keeps dying is restarted with a delay.
PAUSE_SECONDS: Final = 1.0
START_SECONDS: Final = 60.0
_spawn: Final = get_context("spawn")


@dataclass(slots=True)
class Member:
    """One process, and the pipe by which it notices the end of the parent."""

    process: SpawnProcess
    line: Connection


def serve_many(dsn: str, settings: ServerSettings, ready: Callable[[str], None]) -> None:
    """Serve until interrupted. `ready` is called with the address when all processes serve."""
    with listen(settings) as listening, tempfile.TemporaryDirectory(prefix="penstock-") as notes:

        def start() -> Member:
            return _start(dsn, settings, listening, Path(notes))

        members: list[Member] = []
        try:
            members += [start() for _ in range(settings.processes)]
            for member in members:
                _await_ready(member)
            ready(url_of(listening))
            while True:
                _replace_dead(members, start)
        finally:
            _stop(members, settings.drain_seconds)


def _start(dsn: str, settings: ServerSettings, listening: socket.socket, notes: Path) -> Member:
    ours, theirs = _spawn.Pipe()
    process = _spawn.Process(target=_serve, args=(dsn, settings, listening, theirs, notes))
    process.start()
    theirs.close()
    return Member(process, ours)


def _await_ready(member: Member) -> None:
    with suppress(EOFError, OSError):
        if member.line.poll(START_SECONDS):
            member.line.recv()
            return
    raise PenstockError(
        "a server process did not start",
        hint="The lines above have the reason. Try again with one process.",
    )


def _replace_dead(members: list[Member], start: Callable[[], Member]) -> None:
    """Wait until a process dies, and replace it."""
    wait([member.process.sentinel for member in members])
    for place, member in enumerate(members):
        if not member.process.is_alive():
            log.error("server process %s died with code %s and is replaced",
                      member.process.pid, member.process.exitcode)  # fmt: skip
            member.line.close()
            time.sleep(PAUSE_SECONDS)
            members[place] = start()


def _stop(members: list[Member], drain_seconds: int) -> None:
    """Stop all processes gracefully. A further signal ends them at once."""

    def kill(number: int | None = None, frame: FrameType | None = None) -> None:
        for member in members:
            member.process.kill()

    for each in SIGNALS:
        signal.signal(each, kill)
    for member in members:
        member.process.terminate()
    ends_at = time.monotonic() + drain_seconds + 15
    for member in members:
        member.process.join(max(0.0, ends_at - time.monotonic()))
    kill()
    for member in members:
        member.process.join()
        member.line.close()


def _serve(
    dsn: str, settings: ServerSettings, listening: socket.socket, line: Connection, notes: Path
) -> None:
    """The main function of each process."""
    # Ctrl-C reaches the whole process group. The parent forwards it as a signal to stop.
    for each in SIGNALS:
        if each is not signal.SIGTERM:
            signal.signal(each, signal.SIG_IGN)
    raise_file_limit()
    server = make_server(dsn, settings, lambda: line.send(None), notes)
    uvloop.run(_serve_with(server, listening, line))
    if not server.started:
        sys.exit(1)


async def _serve_with(server: Server, listening: socket.socket, line: Connection) -> None:
    def alone() -> None:
        server.should_exit = True
        loop.remove_reader(line.fileno())

    loop = asyncio.get_running_loop()
    # Nothing is written to this pipe. It becomes readable when its other end is closed.
    loop.add_reader(line.fileno(), alone)
    await server.serve([listening])
