"""Serves the application: the socket, its limits, and the shutdown.

On SIGTERM the server closes the socket, ends the long polls, lets requests continue for
`drain_seconds`, and closes the database. A second signal ends it at once.
"""

from __future__ import annotations

import gc
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
import uvloop

from penstock.errors import ConfigurationError
from penstock.server.app import create_app
from penstock.server.context import Context
from penstock.server.settings import ServerSettings
from penstock.server.transport.dispatch import EntryApp
from penstock.server.transport.protocol import Guarded
from penstock.server.transport.unsent_answers import UnsentAnswers
from penstock.settings import fast_paths

# Requests create few reference cycles. With Python's default of 700, the garbage collector would
# run every few requests.
GARBAGE: Final = 10_000
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(dsn: str, settings: ServerSettings, ready: Callable[[str], None]) -> None:
    """Serve until a signal arrives. `ready` is called with the address."""
    with listen(settings) as listening:
        raise_file_limit()
        server = make_server(dsn, settings, lambda: ready(url_of(listening)))
        uvloop.run(server.serve([listening]))


def listen(settings: ServerSettings) -> socket.socket:
    """The listening socket, or an error that explains why there is none."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((settings.host, settings.port))
        made.listen(2048)
    except OSError as error:
        made.close()
        raise ConfigurationError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}",
            hint="Choose another with --host and --port; port 0 takes any free one.",
        ) from None
    made.setblocking(False)
    return made


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}"


def raise_file_limit() -> None:
    """Raise the limit of open files. The usual 1,024 are too few for long polls."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def make_server(
    dsn: str, settings: ServerSettings, ready: Callable[[], None], notes: Path | None = None
) -> Server:
    """A server for `await server.serve([socket])`, which runs until `should_exit` is set.

    `notes` is the directory in which servers on one port share their counters.
    """
    context = Context(dsn, settings, notes)
    app = create_app(context)
    config = uvicorn.Config(
        app,
        **_protocol(settings, app, context.answers),
        loop="none",
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=settings.drain_seconds,
    )
    return Server(config, context, ready)


def _protocol(settings: ServerSettings, app: EntryApp, answers: UnsentAnswers) -> dict[str, Any]:
    if fast_paths():
        return {"http": Guarded.limited(settings, app, answers)}
    return {
        "http": "httptools",
        "limit_concurrency": settings.max_connections,
        "timeout_keep_alive": settings.idle_seconds,
    }


class Server(uvicorn.Server):
    """uvicorn's server with our signals. It ends long polls before it waits for requests."""

    def __init__(self, config: uvicorn.Config, context: Context, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.context = context
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # The objects that exist now stay, so the garbage collector can skip them.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE, 20, 50)
        if not self.should_exit:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.context.drain()
        await super().shutdown(sockets)
        if self.force_exit:
            # uvicorn skips this on a forced exit, but the database must be closed without a
            # traceback.
            await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # An ignored signal stays ignored, as nohup and background jobs of a shell expect.
        chosen = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        before = {each: signal.signal(each, self._stop) for each in chosen}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
