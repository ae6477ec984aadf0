"""Messages about findings: once, from one server, and again when they are over."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql

from penstock.errors import ConfigurationError
from penstock.model.monitoring import Announcement
from penstock.server.database import Database
from penstock.server.monitoring import snapshots
from penstock.server.monitoring.snapshots import SnapshotCache
from penstock.server.notifications import changes, delivery, notifier
from penstock.server.notifications.bodies import Bodies, escaped
from penstock.server.notifications.changes import Changes, compare
from penstock.server.notifications.delivery import SIGNATURE, DeliveryError, Destination, sign
from penstock.server.notifications.notifier import Notifier
from penstock.server.notifications.settings import NotificationSettings
from penstock.server.ui.findings import Finding

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Receiver:
    """An HTTP server on loopback that keeps requests, and answers with the given status."""

    def __init__(self) -> None:
        self.got: queue.Queue[tuple[str, dict[str, str], bytes]] = queue.Queue()
        self.answers: queue.Queue[tuple[int, dict[str, str]]] = queue.Queue()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers = (
                    (204, {}) if receiver.answers.empty() else receiver.answers.get_nowait()
                )
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                receiver.got.put((self.path, dict(self.headers), body))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook?to=ops"

    def next(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.got.get(timeout=60)[2])
        return document

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.stop()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks often, tries again soon, and believes in a recovery at once."""
    monkeypatch.setattr(notifier, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(delivery, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(changes, "RECOVERY", timedelta(0))
    parts = {name: replace(part, seconds=0) for name, part in snapshots.PARTS.items()}
    monkeypatch.setattr(snapshots, "PARTS", parts)


def make_dead_letter(db: psycopg.Connection[Any], topic: str = "orders") -> None:
    db.execute("select penstock.create_queue(%s, exist_ok => true)", [topic])
    db.execute("select penstock.enqueue(%s, '1')", [topic])
    db.execute("select penstock.reject(id, token, 'no card') from penstock.claim(%s)", [topic])


def finding(severity: Any = "warning", **fields: Any) -> Finding:
    given = {"kind": "behind", "title": "orders is late", "text": "3 wait.", "href": "/queues/"}
    return Finding(severity=severity, **given | {"queue": "orders", "subject": "orders"} | fields)


def announcement(**fields: Any) -> Announcement:
    made = Announcement("behind:orders", "behind", "warning", "orders is late", NOW)
    return replace(made, **fields)


@pytest.mark.usefixtures("quick")
def test_two_servers_announce_a_finding_and_its_end_once(
    db: psycopg.Connection[Any], start_server: Callable[..., Any], receiver: Receiver
) -> None:
    settings = NotificationSettings(webhook=receiver.url, secret="s3", ui="https://queue.internal")
    make_dead_letter(db)
    start_server(notify=settings)
    start_server(notify=settings)
    path, headers, body = receiver.got.get(timeout=60)
    assert path == "/hook?to=ops"
    assert headers[SIGNATURE] == sign("s3", body)
    [new] = json.loads(body)["new"]
    assert (new["finding"], new["severity"]) == ("dead-letters:orders", "warning")
    assert new["title"] == "orders has 1 dead letter"
    assert "no card" in new["text"]
    assert new["url"] == "https://queue.internal/dead-letters?queue=orders"
    assert new["runbook_url"] == "https://queue.internal/runbooks#dead-letters"
    make_dead_letter(db)  # the same finding, with another number
    make_dead_letter(db, "invoices")
    assert [each["finding"] for each in receiver.next()["new"]] == ["dead-letters:invoices"]
    db.execute("select penstock.purge('orders.dlq')")
    over = receiver.next()
    assert [each["finding"] for each in over["recovered"]] == ["dead-letters:orders"]
    assert over["new"] == []


@pytest.mark.usefixtures("quick")
def test_a_receiver_that_fails_gets_the_message_later(
    db: psycopg.Connection[Any], start_server: Callable[..., Any], receiver: Receiver
) -> None:
    receiver.answers.put((500, {}))
    receiver.answers.put((429, {"Retry-After": "0"}))
    make_dead_letter(db)
    start_server(notify=NotificationSettings(webhook=receiver.url))
    refused = [receiver.next()["new"][0]["finding"] for _ in range(2)]
    assert refused == ["dead-letters:orders"] * 2
    assert receiver.next()["new"][0]["finding"] == "dead-letters:orders"
    make_dead_letter(db, "invoices")
    assert [each["finding"] for each in receiver.next()["new"]] == ["dead-letters:invoices"]


@pytest.mark.usefixtures("quick")
def test_another_server_takes_over_when_one_stops(
    db: psycopg.Connection[Any], start_server: Callable[..., Any], receiver: Receiver
) -> None:
    make_dead_letter(db)
    first = start_server(notify=NotificationSettings(webhook=receiver.url))
    assert receiver.next()["new"]
    first.stop()
    start_server(notify=NotificationSettings(webhook=receiver.url))
    make_dead_letter(db, "invoices")
    assert [each["finding"] for each in receiver.next()["new"]] == ["dead-letters:invoices"]


async def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    other = Receiver()
    try:
        receiver.answers.put((302, {"Location": other.url}))
        with pytest.raises(DeliveryError, match="status 302"):
            await Destination("webhook", receiver.url).post(b"{}")
        assert other.got.empty()
    finally:
        other.stop()


async def test_a_database_that_is_away_is_announced_by_the_server_that_led(
    dsn: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "AWAY_SECONDS", 0.0)
    database = Database(dsn, 2)
    await database.open()
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    settings = NotificationSettings(webhook=receiver.url)
    with psycopg.connect(dsn, dbname="postgres", autocommit=True) as admin:

        def allow(connections: bool) -> None:
            text = "alter database {} with allow_connections {}"
            admin.execute(sql.SQL(text).format(sql.Identifier(str(name)), sql.Literal(connections)))
            admin.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s",
                [name],
            )

        first = Notifier(database, SnapshotCache(database), settings, "first:1")
        second = Notifier(database, SnapshotCache(database), settings, "second:2")
        await first.run_once()
        await second.run_once()
        allow(False)
        for each in (first, second, first):
            await each.run_once()
        [away] = receiver.next()["new"]
        assert away["finding"] == "database:"
        allow(True)
        while receiver.got.empty():
            await first.run_once()
            # While the database is unavailable, `run_once` waits for nothing.
            await asyncio.sleep(0)
        assert receiver.next()["recovered"][0]["finding"] == "database:"
        assert receiver.got.empty()
    await database.close()


def test_a_finding_is_new_once_and_again_when_it_gets_worse() -> None:
    first = compare([finding()], [], NOW)
    assert [each.identity for each in first.new] == ["behind:orders"]
    stored = first.after(NOW)
    assert stored == [announcement()]
    assert not compare([finding()], stored, NOW).worth_a_message
    worse = compare([finding("critical")], stored, NOW + timedelta(hours=1))
    assert [each.severity for each in worse.new] == ["critical"]
    assert worse.after(NOW + timedelta(hours=1)) == [announcement(severity="critical")]
    assert not compare([finding("note")], stored, NOW).worth_a_message


def test_a_finding_that_comes_and_goes_is_announced_once() -> None:
    gone = compare([], [announcement()], NOW)
    assert not gone.worth_a_message
    assert gone.kept == [announcement(missing_since=NOW)]
    back = compare([finding()], gone.kept, NOW + timedelta(seconds=60))
    assert (back.new, back.recovered, back.kept) == ([], [], [announcement()])
    over = compare([], gone.kept, NOW + timedelta(seconds=120))
    assert [each.finding for each in over.recovered] == ["behind:orders"]
    assert over.after(NOW) == []


def test_names_and_errors_are_plain_text_in_slack() -> None:
    assert escaped("<!channel> a&b\n*x*") == "&lt;!channel&gt; a&amp;b *x*"
    bodies = Bodies("host", "https://queue.internal", redact=False)
    hostile = finding(title="<!here>", text="<https://evil|x>\nsecond line")
    over = [announcement(title="<!everyone>")]
    text = json.loads(bodies.slack(Changes([hostile], over, []), NOW))["text"]
    links = ["<https://queue.internal/queues/|", "<https://queue.internal/runbooks#behind|"]
    assert [part for part in text.split() if part.startswith("<")] == [
        links[0] + "&lt;!here&gt;>.",
        links[1] + "Runbook>",
    ]
    assert "second line" not in text


def test_texts_stay_here_when_payloads_are_redacted() -> None:
    bodies = Bodies("host", None, redact=True)
    found = Changes([finding(text="card 4111")], [], [])
    for body in (bodies.webhook(found, NOW), bodies.slack(found, NOW)):
        assert b"4111" not in body
        assert b"orders is late" in body


def test_many_findings_are_one_short_message() -> None:
    many = [finding(queue=f"q{number}", title=f"q{number} is late") for number in range(50)]
    singles = [announcement(finding=f"x{number}") for number in range(50)]
    text = json.loads(Bodies("host", None, redact=False).slack(Changes(many, singles, []), NOW))
    lines = text["text"].splitlines()
    assert "50 queues are falling behind" in lines[1]
    assert lines[-1] == "and 36 more"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WEBHOOK", "ftp://hooks.internal/secret"),
        ("WEBHOOK", "https:///secret"),
        ("SLACK", "hooks.slack.com/secret"),
        ("SLACK", "https://hooks.slack.com/se cret"),
        ("SLACK", "https://[secret"),
        ("SEVERITY", "loud"),
        ("UI", "javascript:alert(1)"),
    ],
)
def test_bad_settings_are_refused_without_showing_secrets(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        NotificationSettings.from_environment({f"PENSTOCK_NOTIFY_{name}": value})
    assert f"PENSTOCK_NOTIFY_{name}" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_settings_are_off_by_default_and_hide_what_is_secret() -> None:
    assert not NotificationSettings.from_environment({}).enabled
    given = {
        "PENSTOCK_NOTIFY_SLACK": "https://hooks.slack.com/services/T0/secret",
        "PENSTOCK_NOTIFY_SEVERITY": "critical",
        "PENSTOCK_NOTIFY_UI": "https://queue.internal/ops/",
    }
    found = NotificationSettings.from_environment(given)
    assert found.enabled
    assert found.ui == "https://queue.internal/ops"
    assert found.includes("critical")
    assert not found.includes("warning")
    assert "secret" not in repr(found)


def test_a_server_without_destinations_reads_nothing(web: Any, http: httpx.Client, db: Any) -> None:
    http.get("/healthz/ready").raise_for_status()
    assert db.execute("select count(*) from penstock.notifier").fetchone() == (0,)
