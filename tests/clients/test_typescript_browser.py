"""The client for TypeScript in a browser, on a page of another origin that the server allows.
`make test-typescript` builds it first."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.clients.test_typescript_server import PACKAGE, pytestmark
from tests.server.conftest import make_key, run, start_server
from tests.ui.conftest import chromium

__all__ = ["chromium", "make_key", "pytestmark", "run", "start_server"]
CALL = "([url, key]) => import('/test/browser.mjs').then(({ scenario }) => scenario(url, key))"


class Files(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def origin() -> Iterator[str]:
    """Another server, which has the files of the client and no API."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(PACKAGE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_of_an_allowed_origin_does_everything_in_the_scenario(
    origin: str, chromium: Browser, start_server: Any, make_key: Callable[..., str]
) -> None:
    running = start_server(cors_origins=frozenset({origin}))
    page = chromium.new_page()
    page.goto(f"{origin}/package.json")
    assert page.evaluate(CALL, [running.url, make_key("page", "admin")]) == {
        "bytes": [1, 2, 255],
        "lost": "LeaseLostError",
        "full": [429, 1, "string"],
        "streamed": [1, 2, 3],
        "handled": [1, 2, 3],
        "left": 0,
    }


def test_the_package_has_what_npm_publishes() -> None:
    listed = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--ignore-scripts"],
        cwd=PACKAGE, capture_output=True, text=True, check=True,
    )  # fmt: skip
    [package] = json.loads(listed.stdout)
    files = {each["path"] for each in package["files"]}
    assert {"LICENSE", "README.md", "package.json", "dist/index.js", "dist/index.d.ts"} <= files
    assert not {name for name in files if Path(name).suffix == ".ts" and ".d.ts" not in name}
    assert (PACKAGE / "LICENSE").read_text() == (PACKAGE.parents[1] / "LICENSE").read_text()
    assert "dependencies" not in json.loads((PACKAGE / "package.json").read_text())
