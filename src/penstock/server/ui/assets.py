"""The static files of the pages: style, script, icon.

They are read and compressed once. Their names contain a digest of their content, so browsers may
cache them forever.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from penstock.server.transport.problems import HttpError

_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    body: bytes
    packed: bytes
    kind: str
    mark: str


@cache
def assets() -> dict[str, Asset]:
    """All of them, by name."""
    folder = files("penstock.server.ui") / "static"
    found = {}
    for file in folder.iterdir():
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            body = file.read_bytes()
            mark = hashlib.sha256(body).hexdigest()[:10]
            found[file.name] = Asset(body, gzip.compress(body, 9, mtime=0), kind, mark)
    return found


def asset_url(name: str) -> str:
    return f"/static/{assets()[name].mark}/{name}"


async def show(request: Request) -> Response:
    """No key is needed, because the sign-in page uses them and they contain no secrets."""
    request.scope["exchange"].route = "/static"
    asset = assets().get(request.path_params["name"])
    if asset is None:
        raise HttpError(404, "NotFound", "there is no such file")
    current = request.path_params["mark"] == asset.mark
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if current else "no-cache",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(asset.packed, headers=headers, media_type=asset.kind)
    return Response(asset.body, headers=headers, media_type=asset.kind)


def routes() -> list[BaseRoute]:
    return [Route("/static/{mark}/{name}", show, methods=["GET"])]
