"""Takes the three pictures of the UI in the README and docs.

    python tests/ui/screens.py DSN

It creates its own database on that server, and drops it again. tests/ui/test_layout.py takes
pictures of every page.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import uvloop
from playwright.sync_api import Browser, sync_playwright
from psycopg.conninfo import make_conninfo

from penstock import Client
from penstock.db.migrations import Migrator
from penstock.server.auth.api_keys import new_key
from penstock.server.settings import ServerSettings
from penstock.server.transport.serving import listen, make_server, url_of

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.ui import stages
from tests.ui.conftest import FLAGS

Database = psycopg.Connection[Any]
IMAGES = Path(__file__).parents[2] / "docs" / "images"
SECONDS = 60


def main(dsn: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for_the_readme(dsn, browser)
        browser.close()


def for_the_readme(dsn: str, browser: Browser) -> None:
    IMAGES.mkdir(exist_ok=True)
    with database(dsn, "penstock_screens") as made, site(made, busy) as (url, key, client, db):
        traffic(client)
        stages.charts(db)  # up to this minute
        stages.beat_again(db)
        (dead,) = db.execute("select min(id) from penstock.dead").fetchone() or (0,)
        tall = {"width": 1440, "height": 1180}
        take(browser, url, key, "/", "light", tall, IMAGES / "overview.png")
        wide = {"width": 1440, "height": 1000}
        take(browser, url, key, f"/messages/{dead}", "dark", wide, IMAGES / "message.png")
        take(browser, url, key, "/queues/emails/", "light", wide, IMAGES / "queue.png")


def busy(client: Client, db: Database) -> None:
    stages.sick(client, db)
    stages.gold(db)


@contextmanager
def database(dsn: str, name: str) -> Iterator[str]:
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"drop database if exists {name} with (force)")
        admin.execute(f"create database {name}")
        yield make_conninfo(dsn, dbname=name)
        admin.execute(f"drop database {name} with (force)")


@contextmanager
def site(
    dsn: str, stage: Callable[[Client, Database], object]
) -> Iterator[tuple[str, str, Client, Database]]:
    """A server with something to show: its address, a key, and ways to its database."""
    with psycopg.connect(dsn, autocommit=True) as db:
        Migrator(db).up()
    with psycopg.connect(dsn, autocommit=True) as db, Client(dsn) as client:
        stage(client, db)
        key = new_key("ada", ["admin"])
        client.run(key.command)
        settings = ServerSettings(port=0, access_log="off", upkeep="off")
        listening, ready = listen(settings), threading.Event()
        server = make_server(dsn, settings, ready.set)
        thread = threading.Thread(target=lambda: uvloop.run(server.serve([listening])))
        thread.start()
        ready.wait(60)
        try:
            yield url_of(listening), key.token, client, db
        finally:
            server.should_exit = True
            thread.join()


def traffic(client: Client) -> None:
    """Waves of orders and mails, most of which are worked on."""
    end = time.monotonic() + SECONDS
    turn = 0
    while time.monotonic() < end:
        turn += 1
        for queue, most in (("emails", 30), ("orders", 18)):
            for n in range(most if turn % 12 < 5 else most // 5):
                client.enqueue(queue, {"n": n})
            for lease in client.claim(queue, most // 2, worker="mailer-1"):
                client.ack(lease)
        time.sleep(0.4)


def take(
    browser: Browser,
    url: str,
    key: str,
    path: str,
    scheme: Any,
    viewport: Any,
    file: Path,
) -> None:
    context = browser.new_context(base_url=url, color_scheme=scheme, viewport=viewport)
    page = context.new_page()
    context.request.post("/login", form={"key": key})
    page.goto(path)
    page.wait_for_timeout(1000)
    page.screenshot(path=file)
    context.close()


if __name__ == "__main__":
    main(sys.argv[1])
