"""The servers of `bench http`, each a process: Penstock's own, and one with a static answer."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock_benchmarks.errors import BenchError


@contextmanager
def penstock_server(dsn: str) -> Iterator[str]:
    """Starts `penstock up` on a free port, with default settings. Returns its address."""
    command = [sys.executable, "-m", "penstock.cli", "up", "--json", "--port", "0", "--dsn", dsn]
    with _process(command) as ready:
        yield str(ready["url"])


@contextmanager
def static_server() -> Iterator[str]:
    """The same framework and server underneath, with a fixed answer to `POST /<size>`."""
    with _process([sys.executable, "-m", "penstock_benchmarks.http_servers"]) as ready:
        yield str(ready["url"])


@contextmanager
def _process(command: list[str]) -> Iterator[dict[str, Any]]:
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(os.environ)
    )
    assert started.stdout is not None
    try:
        line = started.stdout.readline()
        if not line:
            raise BenchError(
                "the server did not start", hint="Try `penstock up` to see what it says."
            )
        yield json.loads(line)
    finally:
        started.terminate()
        started.wait(30)
        started.stdout.close()


def _serve_static() -> None:
    """Bare Starlette on uvicorn, with the same parser and loop as Penstock's server."""
    import uvicorn
    import uvloop
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from penstock.server.settings import ServerSettings
    from penstock.server.transport.serving import listen, url_of

    async def answer(request: Request) -> Response:
        await request.body()
        size = request.path_params["size"]
        return Response(b'{"x":"' + b"x" * (size - 8) + b'"}', media_type="application/json")

    async def main() -> None:
        listening = listen(ServerSettings(port=0))
        app = Starlette(routes=[Route("/{size:int}", answer, methods=["POST"])])
        config = uvicorn.Config(app, loop="none", http="httptools", log_level="error",
                                access_log=False, timeout_keep_alive=60)  # fmt: skip
        print(json.dumps({"url": url_of(listening)}), flush=True)
        await uvicorn.Server(config).serve([listening])

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(main())


if __name__ == "__main__":
    _serve_static()
