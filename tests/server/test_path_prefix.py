"""The server behind a real nginx, with TLS, under a path."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.nginx import PREFIX, free_port, running_nginx, trusting

from penstock.errors import ConfigurationError
from penstock.http import Client
from penstock.server.app import create_app
from penstock.server.auth.permissions import PAGES
from penstock.server.auth.tokens import sign_in_path
from penstock.server.context import Context
from penstock.server.settings import ServerSettings
from penstock.server.transport.path_prefix import PathPrefix

MakeKey = Callable[..., str]
ATTRIBUTE = re.compile(
    r'\s(?:href|src|action|formaction|hx-get|hx-post|data-events)="([^"#?]*)', re.IGNORECASE
)


@dataclass
class Published:
    """A server as its callers see it through nginx."""

    url: str
    folder: Path
    inner: str

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, verify=trusting(self.folder), timeout=60, trust_env=False, **options
        )


@pytest.fixture
def published(
    request: pytest.FixtureRequest, start_server: Any, tmp_path: Path
) -> Iterator[Published]:
    port, strips = free_port(), getattr(request, "param", "") == "removes the prefix"
    running = start_server(public_url=f"https://127.0.0.1:{port}{PREFIX}")
    with running_nginx(tmp_path, port, running.url, strips=strips) as url:
        yield Published(url, tmp_path, running.url)


@pytest.mark.parametrize("published", ["passes the prefix on", "removes the prefix"], indirect=True)
def test_every_page_its_links_and_its_forms_stay_under_the_prefix(
    published: Published, make_key: MakeKey, run: Any
) -> None:
    key = make_key("admin", "admin")
    with published.client() as browser:
        browser.headers["Accept-Encoding"] = "gzip"
        browser.post("api/messages", json={"topic": "orders", "json": 1}, headers=_bearer(key))
        sent_on = browser.get("queues?sort=ready")
        assert sent_on.headers["location"] == f"{PREFIX}/login?next=/queues%3Fsort%3Dready"
        entered = browser.get(sign_in_path(run, key).lstrip("/"))
        assert (entered.status_code, entered.headers["location"]) == (303, f"{PREFIX}/")
        cookie = entered.headers["set-cookie"].lower()
        assert f"path={PREFIX};" in cookie
        assert "secure" in cookie
        paths = [each for each in PAGES if "{" not in each and each != "/find"]
        paths += ["/find?q=order", "/queues/orders/", "/messages/1"]
        seen: set[str] = set()
        for path in paths:
            page = browser.get(path.lstrip("/"))
            assert page.status_code == 200, path
            links = ATTRIBUTE.findall(page.text)
            assert len(links) > 10
            seen.update(link for link in links if link)
        wrong = [link for link in seen if not f"{link}/".startswith(f"{PREFIX}/")]
        assert wrong == []
        assert f"{PREFIX}/live" in seen
        missing = [
            each
            for each in seen
            if not each.endswith(("/live", "/logout", "/theme", "/messages/cancel"))
            and browser.get(f"https://{browser.base_url.netloc.decode()}{each}").status_code == 404
        ]
        assert missing == []


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_forms_are_accepted_and_answered_under_the_prefix(
    published: Published, make_key: MakeKey
) -> None:
    with published.client() as browser:
        origin = {"Origin": published.url.removesuffix(PREFIX)}
        entered = browser.post(
            "login", data={"key": make_key("ada", "operate"), "next": "/queues"}, headers=origin
        )
        assert entered.headers["location"] == f"{PREFIX}/queues"
        form = browser.get("queues/create").text
        token = re.findall(r'name="csrf" value="(\w+)"', form)[0]
        made = browser.post(
            "queues/create", data={"csrf": token, "queue": "emails"}, headers=origin
        )
        assert made.status_code == 303, made.text
        assert made.headers["location"].startswith(f"{PREFIX}/queues/emails/?done=")
        foreign = browser.post("theme", data={}, headers={"Origin": "https://example.com"})
        assert foreign.status_code == 403
        out = browser.post("logout", headers=origin)
        assert out.headers["location"] == f"{PREFIX}/login"
        assert "penstock_session" not in browser.cookies


def test_long_polls_and_live_events_pass_through(
    published: Published, make_key: MakeKey, run: Any
) -> None:
    key = make_key("admin", "admin")
    found: list[Any] = []
    with published.client(headers=_bearer(key)) as caller, published.client() as browser:
        caller.post("api/topic-configs", json={"topic": "orders"})

        def wait() -> None:
            asked = {"topic": "orders", "count": 1, "wait_seconds": 20}
            found.append(caller.post("api/messages/dequeue", json=asked).json()["messages"])

        waiting = threading.Thread(target=wait)
        waiting.start()
        browser.post("login", data={"key": key})
        with browser.stream("GET", "live") as events:
            lines = events.iter_lines()
            assert next(line for line in lines if line.startswith("event")) == "event: tick"
            sent = browser.post(
                "api/messages", json={"topic": "orders", "json": 7}, headers=_bearer(key)
            )
            assert sent.status_code == 201
            assert next(line for line in lines if line.startswith("event")) == "event: tick"
        waiting.join()
    assert [each["json"] for each in found[0]] == [7]


def test_the_client_over_http_takes_an_address_with_a_path(
    published: Published, make_key: MakeKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(published.folder / "certificate.pem"))
    with Client(published.url, make_key("admin", "admin")) as client:
        client.create_queue("orders")
        client.enqueue("orders", {"number": 1})
        assert client.claim("orders")[0].payload == {"number": 1}


def test_the_openapi_document_names_the_prefix_and_created_resources_have_it(
    published: Published, make_key: MakeKey
) -> None:
    with published.client(headers=_bearer(make_key("admin", "admin"))) as caller:
        assert caller.get("openapi.json").json()["servers"] == [{"url": PREFIX}]
        assert 'href="openapi.json"' in caller.get("docs").text
        made = caller.post("managed-services/local/queues", json={"name": "orders"})
        assert made.headers["location"] == f"{PREFIX}/managed-services/local/queues/orders"


def test_health_checks_need_no_prefix(published: Published) -> None:
    assert httpx.get(f"{published.inner}/healthz/live").status_code == 200
    assert httpx.get(f"{published.inner}{PREFIX}/healthz/live").status_code == 200
    assert httpx.get(f"{published.inner}{PREFIX}x/healthz/live").status_code == 404


def test_a_prefix_that_is_a_path_of_the_server_is_refused() -> None:
    settings = ServerSettings(public_url="https://example.com/queues/penstock")
    with pytest.raises(ConfigurationError, match="begins with /queues"):
        create_app(Context("", settings))


@pytest.mark.parametrize(
    "text",
    [
        "example.com",
        "ftp://example.com",
        "https://",
        "https://u:p@example.com",
        "https://example.com/a?b",
        "https://example.com/a/../b",
        'https://example.com/"',
        "https://example.com//evil",
    ],
)
def test_a_malformed_public_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="PENSTOCK_HTTP_PUBLIC_URL"):
        ServerSettings.from_environment({"PENSTOCK_HTTP_PUBLIC_URL": text})


def test_a_public_address_decides_prefix_cookies_and_origin() -> None:
    variable = "PENSTOCK_HTTP_PUBLIC_URL"
    found = ServerSettings.from_environment({variable: "https://example.com:8443/ops/penstock/"})
    assert found.public_url == "https://example.com:8443/ops/penstock"
    assert (found.path_prefix, found.public_host) == ("/ops/penstock", "example.com:8443")
    assert found.cookies_are_secure
    assert not ServerSettings.from_environment({variable: "http://example.com"}).cookies_are_secure
    assert ServerSettings().path_prefix == ""


def test_only_links_and_local_redirects_get_the_prefix() -> None:
    prefix = PathPrefix("/p")
    page = b'<a href="/x"> <a href="//host/x"> <a href="#x"> <p>href=&#34;/x&#34;</p>'
    html = [(b"content-type", b"text/html; charset=utf-8")]
    assert prefix.add_to_page(html, page)[1] == page.replace(b'"/x"', b'"/p/x"')
    kept = [(b"content-type", b"application/json")]
    assert prefix.add_to_page(kept, page) == (kept, page)
    headers = [(b"Location", b"/x"), (b"location", b"//host"), (b"location", b"https://host/")]
    changed = [value for _, value in prefix.add_to_headers(headers)]
    assert changed == [b"/p/x", b"//host", b"https://host/"]
    assert [prefix.strip(path) for path in ("/p", "/p/", "/p/x", "/px", "/x")] == [
        "/", "/", "/x", "/px", "/x",
    ]  # fmt: skip
