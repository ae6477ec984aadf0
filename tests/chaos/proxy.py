"""A TCP proxy that can go silent: connections stay open, and transport nothing.

`python -m tests.chaos.proxy LISTEN TARGET`, as port numbers; a line on stdin says what to do:
`silence` forwards nothing more on the open connections, while new ones work;
`deaf` does so with new ones, too, until `hear`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys


class Proxy:
    def __init__(self, target: int) -> None:
        self.target = target
        self.open: set[asyncio.Task[None]] = set()
        self.deaf = False

    async def serve(self, port: int) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        async with server:
            await self._obey()

    async def _obey(self) -> None:
        loop = asyncio.get_running_loop()
        while word := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            self.deaf = word == "deaf"
            if word in ("deaf", "silence"):
                # The tasks that copy have ended, and the sockets stay: they accept all data.
                for task in self.open:
                    task.cancel()
                self.open.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(writer)
        if self.deaf:
            return
        upstream, downstream = await asyncio.open_connection("127.0.0.1", self.target)
        lines.append(downstream)
        for source, sink in ((reader, downstream), (upstream, writer)):
            self.open.add(asyncio.create_task(_copy(source, sink)))


# Kept, or the garbage collector would close what should hang.
lines: list[asyncio.StreamWriter] = []


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()


if __name__ == "__main__":
    asyncio.run(Proxy(int(sys.argv[2])).serve(int(sys.argv[1])))
