"""Push delivery: messages of a queue go to an HTTP endpoint, signed, in order within groups."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from standardwebhooks import Webhook
from tests.server.test_control_plane import until

from penstock.errors import InvalidValueError
from penstock.push.http_sender import HttpSender, SendError, _retry_after, check_url
from penstock.push.networks import AllowedNetworks
from penstock.push.signing import new_signing_secret

Db = psycopg.Connection[Any]
Respond = Callable[[int], int | None]


class Receiver:
    """An endpoint. `respond` gets the number of the request, and returns a status or None to hang.

    It can be stopped and started again on the same port.
    """

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.accepted: list[Any] = []
        self.hanging = threading.Event()
        self._lock = threading.Lock()
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def start(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver._lock:
                    receiver.requests.append(
                        ({k.lower(): v for k, v in self.headers.items()}, body)
                    )
                    status = receiver.respond(len(receiver.requests))
                    if status is not None and 200 <= status < 300:
                        receiver.accepted.append(json.loads(body))
                if status is None:
                    receiver.hanging.wait()
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self.hanging.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(lambda _: 204)
    yield made
    made.stop()


LOOPBACK = AllowedNetworks.from_environment({"PENSTOCK_PUSH_NETWORKS": "127.0.0.0/8"})


@pytest.fixture
def pushing(start_server: Any, make_key: Any) -> Iterator[httpx.Client]:
    """A client of a server that may send to this machine."""
    running = start_server(push_networks=LOOPBACK)
    headers = {"Authorization": f"Bearer {make_key('boss', 'admin')}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=60) as client:
        yield client


def subscribe(http: httpx.Client, url: str, **options: Any) -> dict[str, Any]:
    body = {"name": "hook", "topic": "orders", "url": url, **options}
    made = http.post("/api/subscriptions", json=body)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


def left(db: Db) -> int:
    query = "select ready + scheduled + leased from penstock.stats('orders')"
    row = db.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def make_queue(db: Db, **settings: Any) -> None:
    chosen = {"backoff": {"kind": "constant", "base_seconds": 0.1}, **settings}
    db.execute("select penstock.create_queue('orders', %s::jsonb)", [json.dumps(chosen)])


def test_requests_carry_the_payload_and_a_signature(
    pushing: httpx.Client, receiver: Receiver, db: Db
) -> None:
    make_queue(db)
    made = subscribe(pushing, receiver.url)
    assert (made["enabled"], made["concurrency"], "secret" in made) == (True, 10, False)
    db.execute("select penstock.enqueue('orders', '{\"n\": 1}')")
    until(lambda: receiver.requests, bool)
    headers, body = receiver.requests[0]
    [secret] = pushing.get("/api/subscriptions/hook/secret").json()["secrets"]
    assert Webhook(secret).verify(body, headers) == {"n": 1}
    assert headers["webhook-id"].startswith("orders.")
    assert (headers["penstock-queue"], headers["penstock-attempt"]) == ("orders", "1")
    until(lambda: left(db), lambda count: count == 0)
    shown = until(
        lambda: pushing.get("/api/subscriptions/hook").json(), lambda found: found["delivered"] == 1
    )
    assert shown["last_delivered_at"]
    # After a change both secrets sign, so that receivers can change theirs.
    other = "whsec_" + "A" * 43 + "="
    pushing.patch("/api/subscriptions/hook", json={"secret": other}).raise_for_status()
    assert pushing.get("/api/subscriptions/hook/secret").json()["secrets"] == [other, secret]
    count = len(receiver.requests)
    until(lambda: _enqueue_and_look(db, receiver, count, other), bool)
    row = db.execute("select s::text from penstock.subscription s").fetchone()
    assert secret not in str(row)


def test_the_receiver_of_the_guide_handles_each_message_once(
    pushing: httpx.Client, receiver: Receiver, db: Db
) -> None:
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "receive-push-deliveries.md"
    [code] = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    handled: list[Any] = []
    names["handle"] = handled.append
    make_queue(db)
    subscribe(pushing, receiver.url)
    [secret] = pushing.get("/api/subscriptions/hook/secret").json()["secrets"]
    receiver.respond = lambda number: 500 if number == 1 else 204
    db.execute("select penstock.enqueue('orders', '{\"n\": 1}')")
    until(lambda: left(db), lambda count: count == 0)
    requests = receiver.requests
    assert len(requests) >= 2
    assert {headers["webhook-id"] for headers, _ in requests} == {requests[0][0]["webhook-id"]}
    for headers, body in requests:
        assert names["receive"](secret, headers, body) == 204
        assert names["receive"](secret, headers, body + b" ") == 401
        assert names["receive"](new_signing_secret(), headers, body) == 401
    assert handled == [{"n": 1}]


def test_a_quiet_of_an_operator_lasts_longer_than_an_outage(
    start_server: Any, make_key: Any, receiver: Receiver, db: Db
) -> None:
    running = start_server(push_networks=LOOPBACK)
    headers = {"Authorization": f"Bearer {make_key('boss', 'admin')}"}
    make_queue(db)
    receiver.respond = lambda _: 500
    with httpx.Client(base_url=running.url, headers=headers, timeout=60) as http:
        subscribe(http, receiver.url)
        db.execute("select penstock.enqueue('orders', to_jsonb(n)) from generate_series(1, 9) n")
        serving = until(lambda: running.server.context.pusher._serving, bool)
        [runner] = until(lambda: serving._worker.runners, bool)
        until(lambda: runner.resting, bool)
        [worker] = until(lambda: http.get("/api/workers").json()["items"], bool)
        command = {"worker": worker["worker"], "command": "quiet"}
        http.post("/api/workers/command", json=command).raise_for_status()
        until(lambda: runner.quiet, bool)
        # The outage ends once more, and the endpoint is tried again only after the operator's word.
        until(lambda: not runner.resting, bool)
        assert (runner.quiet, runner.room) == (True, 0)
        receiver.respond = lambda _: 204
        http.post("/api/workers/command", json=command | {"command": "resume"}).raise_for_status()
        until(lambda: left(db), lambda count: count == 0)


def _enqueue_and_look(db: Db, receiver: Receiver, count: int, secret: str) -> bool:
    """Whether a request that came after `count` has a signature by the secret."""
    db.execute("select penstock.enqueue('orders', '{\"n\": 2}')")
    until(lambda: len(receiver.requests), lambda found: found > count)
    headers, body = receiver.requests[-1]
    try:
        return bool(Webhook(secret).verify(body, headers))
    except Exception:
        return False


def test_a_message_that_is_refused_is_retried_and_becomes_a_dead_letter(
    pushing: httpx.Client, receiver: Receiver, db: Db
) -> None:
    receiver.respond = lambda _: 302
    make_queue(db, max_attempts=3)
    subscribe(pushing, receiver.url)
    db.execute("select penstock.enqueue('orders', '1')")
    dead = until(
        lambda: db.execute("select last_error from penstock.dead_letters").fetchall(), bool
    )
    assert "status 302" in dead[0][0]
    # A redirect is not followed.
    assert len(receiver.requests) == 3
    assert [headers["penstock-attempt"] for headers, _ in receiver.requests] == ["1", "2", "3"]


def test_the_error_of_an_endpoint_that_is_down_has_no_traceback(
    pushing: httpx.Client, db: Db
) -> None:
    make_queue(db, max_attempts=1)
    subscribe(pushing, "http://127.0.0.1:1/")
    db.execute("select penstock.enqueue('orders', '1')")
    dead = until(
        lambda: db.execute("select last_error from penstock.dead_letters").fetchall(), bool
    )
    assert dead == [("All connection attempts failed",)]


def test_a_gone_endpoint_disables_the_subscription_and_keeps_the_messages(
    pushing: httpx.Client, receiver: Receiver, db: Db
) -> None:
    receiver.respond = lambda _: 410
    make_queue(db)
    subscribe(pushing, receiver.url)
    for n in range(5):
        db.execute("select penstock.enqueue('orders', %s::jsonb)", [str(n)])
    shown = until(
        lambda: pushing.get("/api/subscriptions/hook").json(), lambda found: not found["enabled"]
    )
    assert "410" in shown["disabled_reason"]
    assert left(db) == 5
    receiver.respond = lambda _: 200
    pushing.patch("/api/subscriptions/hook", json={"enabled": True}).raise_for_status()
    until(lambda: left(db), lambda count: count == 0)


def test_private_networks_are_refused_when_connecting(
    http: httpx.Client, receiver: Receiver, db: Db
) -> None:
    make_queue(db, max_attempts=1)
    refused = http.post(
        "/api/subscriptions", json={"name": "a", "topic": "orders", "url": receiver.url}
    )
    assert (refused.status_code, refused.json()["field"]) == (422, "url")
    # A name says nothing: its address is checked when the connection is made.
    subscribe(http, f"http://localhost:{receiver.port}/hook")
    db.execute("select penstock.enqueue('orders', '1')")
    dead = until(
        lambda: db.execute("select last_error from penstock.dead_letters").fetchall(), bool
    )
    assert "private network" in dead[0][0]
    assert receiver.requests == []


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.9.9", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "ff02::1"),
        *("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "192.0.2.1", "198.18.0.1"),
        # Site-local, IPv4-compatible, IPv4-translated, local-use NAT64, and reserved.
        *("fec0::1", "::10.0.0.1", "::8.8.8.8", "::ffff:0:10.0.0.1", "::ffff:0:8.8.8.8"),
        *("64:ff9b:1:a00:0:100:808:808", "64:ff9b:1::808:808", "4000::1", "8000::1", "5f00::1"),
        *("2001:db8::1", "3fff::1", "2001:0:a00:1::f5ff:fffe"),
    ],
)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert not AllowedNetworks().allow(address)


def test_public_and_allowed_addresses_are_accepted() -> None:
    assert AllowedNetworks().allow("93.184.215.14")
    assert AllowedNetworks().allow("2606:2800:21f:cb07:6820:80da:af6b:8b2c")
    assert AllowedNetworks().allow("64:ff9b::5db8:d70e")
    assert AllowedNetworks().allow("::ffff:93.184.215.14")
    assert LOOPBACK.allow("127.0.0.9")
    assert not LOOPBACK.allow("10.0.0.1")


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.com/", "https://", "https://a:b@example.com/", "file:///etc/passwd"),
        *("https://example.com/#x", "https://exa mple.com/", "http://[::1", "https://x:0/"),
        *("https://10.0.0.1/", "http://[::1]/", "gopher://x", "", "https://ex\nample.com/"),
    ],
)
def test_urls_that_cannot_be_sent_to_are_refused(url: str) -> None:
    with pytest.raises(InvalidValueError):
        check_url(url, AllowedNetworks())


async def test_a_name_that_is_resolved_again_reaches_nothing_else(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the connection goes to the address that was checked, looked up once."""
    import asyncio

    answers = [[(0, 0, 0, "", ("127.0.0.1", 0))], [(0, 0, 0, "", ("10.0.0.1", 0))]]
    asked: list[str] = []

    async def getaddrinfo(host: str, *args: Any, **options: Any) -> Any:
        asked.append(host)
        return answers[len(asked) - 1]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    sender = HttpSender(LOOPBACK)
    url = f"http://rebinding.example:{receiver.port}/"
    assert (await sender.post(url, b"1", {"content-length": "1"}, 5)).status == 204
    await sender.close()
    second = HttpSender(LOOPBACK)
    with pytest.raises(SendError, match="private network"):
        await second.post(url, b"1", {"content-length": "1"}, 5)
    await second.close()
    assert asked == ["rebinding.example"] * 2


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        *[("120", 120), (" 5 ", 5), ("86401", 0), ("9" * 50, 0), ("", 0)],
        *[("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("soon", 0), ("-5", 0)],
        *[("Fri, 31 Dec 9999 23:59:59 GMT", 0), ("²", 0)],
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str, expected: float) -> None:
    assert _retry_after([(b"Retry-After", header.encode("latin-1"))]) == expected


def test_retry_after_a_date_lasts_until_then() -> None:
    header = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 3000 <= _retry_after([(b"Retry-After", header.encode("latin-1"))]) <= 3600


@pytest.mark.parametrize(
    "count", [1500, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_an_endpoint_that_fails_hangs_and_restarts_gets_every_message_in_order(
    start_server: Any, make_key: Any, db: Db, count: int
) -> None:
    def respond(number: int) -> int | None:
        if number % 97 == 0:
            return 500
        return None if number in (50, count // 2) else 200

    receiver = Receiver(respond)
    running = [start_server(push_networks=LOOPBACK) for _ in range(2)]
    headers = {"Authorization": f"Bearer {make_key('boss', 'admin')}"}
    make_queue(db, max_attempts=100)
    with httpx.Client(base_url=running[0].url, headers=headers, timeout=60) as http:
        subscribe(http, receiver.url, timeout_seconds=1, concurrency=20)
    db.execute(
        "select penstock.enqueue('orders', jsonb_build_object('g', n %% 50, 'n', n),"
        " group_key => 'g' || n %% 50) from generate_series(1, %s) n",
        [count],
    )
    try:
        until(lambda: len(receiver.accepted), lambda found: found >= count // 3)
        receiver.stop()
        receiver.hanging = threading.Event()
        running[1].stop()
        receiver.start()
        until(lambda: left(db), lambda found: found == 0)
    finally:
        receiver.stop()
    times = Counter(each["n"] for each in receiver.accepted)
    lost = set(range(1, count + 1)) - set(times)
    duplicates = len(receiver.accepted) - len(times)
    requests = len(receiver.requests)
    print(f"{count} messages, {requests} requests, {duplicates} duplicates, {len(lost)} lost")
    assert lost == set()
    assert set(times) == set(range(1, count + 1))
    first: dict[int, list[int]] = defaultdict(list)
    for each in receiver.accepted:
        if each["n"] not in first[each["g"]]:
            first[each["g"]].append(each["n"])
    assert all(numbers == sorted(numbers) for numbers in first.values())
    assert db.execute("select count(*) from penstock.dead_letters").fetchone() == (0,)


def test_scopes_hold_for_subscriptions(
    pushing: httpx.Client, open_client: Any, make_key: Any, db: Db, receiver: Receiver
) -> None:
    make_queue(db)
    subscribe(pushing, receiver.url)
    other = open_client(make_key("other", "operate:emails", "read:emails"))
    assert other.get("/api/subscriptions").json() == {"items": [], "next": None}
    assert other.get("/api/subscriptions/hook/secret").status_code == 403
    reader = open_client(make_key("reader", "read:orders"))
    assert reader.get("/api/subscriptions/hook").status_code == 200
    assert reader.get("/api/subscriptions/hook/secret").status_code == 403
