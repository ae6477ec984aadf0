"""Takes the pictures of the README, of a server with a minute of traffic and a bad night.

python tests/ui/screens.py DSN     # of an empty database
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from pathlib import Path

import psycopg
import uvloop
from playwright.sync_api import sync_playwright

from penstock import Client
from penstock.migrations import Migrator
from penstock.server.keys import new_key
from penstock.server.serving import listen, make_server, url_of
from penstock.server.settings import ServerSettings

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.ui import stages
from tests.ui.conftest import FLAGS

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SECONDS = 60


def main(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as db:
        Migrator(db).up()
    with psycopg.connect(dsn, autocommit=True) as db, Client(dsn) as client:
        stages.sick(client, db)
        key = new_key("ada", ["admin"])
        client.run(key.command)
        settings = ServerSettings(port=0, access_log="off", upkeep="off")
        listening, ready = listen(settings), threading.Event()
        server = make_server(dsn, settings, ready.set)
        server.context.pulse._seconds = 1.0  # an hour of beats in minutes
        thread = threading.Thread(target=lambda: uvloop.run(server.serve([listening])))
        thread.start()
        ready.wait(60)
        try:
            traffic(client)
            (dead,) = db.execute("select min(id) from penstock.dead").fetchone() or (0,)
            take(url_of(listening), key.token, dead)
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


def take(url: str, key: str, dead: int) -> None:
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for path, name, scheme in (
            ("/", "overview.png", "light"),
            (f"/messages/{dead}", "message.png", "dark"),
        ):
            context = browser.new_context(
                base_url=url,
                color_scheme=scheme,
                viewport={"width": 1180, "height": 1120 if path == "/" else 820},
            )
            page = context.new_page()
            page.goto(f"/login?key={key}&next={path}")
            page.wait_for_timeout(1000)
            page.screenshot(path=IMAGES / name)
            context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
