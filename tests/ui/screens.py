"""Takes pictures of the UI: the three of the README and docs, or of every page, to look at.

    python tests/ui/screens.py DSN             # docs/images
    python tests/ui/screens.py DSN FOLDER      # every page: empty, healthy and sick,
                                               # light and dark, on a desk and on a phone

It creates its own databases on that server, and drops them again.
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
SIZES = {"desk": {"width": 1180, "height": 900}, "phone": {"width": 390, "height": 844}}
SECONDS = 60
PAGES = {
    "overview": "/",
    "queues": "/queues",
    "queue": "/queues/{queue}/",
    "messages": "/messages?state=dead",
    "message": "/messages/{message}",
    "dead-letters": "/dead-letters",
    "workers": "/workers",
    "schedules": "/schedules",
    "analytics": "/analytics",
    "system": "/system",
    "activity": "/activity",
    "create": "/queues/create",
    "settings": "/queues/{queue}/settings",
    "redrive": "/queues/{queue}/redrive",
    "purge": "/queues/{queue}/purge",
    "error": "/queues/nowhere/",
    "login": "/login",
}


def main(dsn: str, folder: Path | None) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        if folder is None:
            for_the_readme(dsn, browser)
        else:
            of_every_page(dsn, browser, folder)
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


def of_every_page(dsn: str, browser: Browser, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, stage in {"empty": nothing, "healthy": healthy, "sick": sick}.items():
        with database(dsn, f"penstock_screens_{name}") as made, site(made, stage) as running:
            url, key, client, db = running
            if name != "empty":
                traffic(client, SECONDS / 6)
            queue = "invoices" if name == "sick" else "emails"
            query = "select min(id) from penstock.messages where queue in (%s, %s)"
            (message,) = db.execute(query, [queue, f"{queue}.dlq"]).fetchone() or (0,)
            for page, path in PAGES.items():
                if name == "empty" and "{" in path:
                    continue
                path = path.format(queue=queue, message=message)
                for scheme in ("light", "dark"):
                    for size, viewport in SIZES.items():
                        file = folder / f"{page}-{name}-{size}-{scheme}.png"
                        take(browser, url, key, path, scheme, viewport, file, whole=True)


def nothing(client: Client, db: Database) -> None:
    pass


def healthy(client: Client, db: Database) -> None:
    stages.healthy(client, db)
    stages.gold(db)
    stages.charts(db)


def busy(client: Client, db: Database) -> None:
    stages.sick(client, db)
    stages.gold(db)


def sick(client: Client, db: Database) -> None:
    stages.sick(client, db)
    stages.gold(db)
    stages.charts(db)


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


def traffic(client: Client, seconds: float = SECONDS) -> None:
    """Waves of orders and mails, most of which are worked on."""
    end = time.monotonic() + seconds
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
    *,
    whole: bool = False,
) -> None:
    context = browser.new_context(base_url=url, color_scheme=scheme, viewport=viewport)
    page = context.new_page()
    if path != "/login":
        context.request.post("/login", form={"key": key})
    page.goto(path)
    page.wait_for_timeout(300 if whole else 1000)
    page.screenshot(path=file, full_page=whole)
    context.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
