"""nginx and Caddy with our examples: they accept them, and a real nginx serves a real server."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from tests.deploy.tools import DEPLOY, program, run
from tests.nginx import PREFIX, free_port

from penstock.server.auth.api_keys import new_key
from penstock.server.proxies import parse_networks

# What an installation of nginx has around our file.
AROUND = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  include {folder}/penstock.conf;
}}
"""


def nginx() -> str:
    return program("nginx", "apt-get install nginx-light")


def under_a_path(text: str) -> str:
    """The example as its comment says: the block that is a comment replaces the one above it."""
    whole = r"    location / {\n.*?^    }\n"
    prefixed = r"^    # location /ops/penstock/ {\n(?:^    # .*\n)*?^    # }\n"
    [block] = re.findall(prefixed, text, re.MULTILINE)
    text, count = re.subn(whole, "", text, flags=re.MULTILINE | re.DOTALL)
    assert count == 1
    return text.replace(block, re.sub("^    # ", "    ", block, flags=re.MULTILINE))


def write_configuration(folder: Path, port: int, upstream: str, *, prefix: bool = False) -> Path:
    """Our example, with other addresses and a certificate of the moment."""
    openssl = program("openssl", "apt-get install openssl")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    options = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=penstock"
    run(openssl, "req", "-x509", *options.split(), "-keyout", key, "-out", certificate)
    text = (DEPLOY / "nginx" / "penstock.conf").read_text("utf-8")
    if prefix:
        text = under_a_path(text)
    for ours, theirs in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("server 127.0.0.1:8080", f"server {upstream}"),
        ("/etc/nginx/tls/penstock.crt", str(certificate)),
        ("/etc/nginx/tls/penstock.key", str(key)),
    ):
        assert ours in text
        text = text.replace(ours, theirs)
    (folder / "penstock.conf").write_text(text)
    path = folder / "nginx.conf"
    # The folder of the test belongs to us alone.
    user = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
    path.write_text(AROUND.format(folder=folder, user=user))
    return path


@contextmanager
def running(folder: Path, port: int, upstream: str, *, prefix: bool) -> Iterator[str]:
    path = write_configuration(folder, port, upstream, prefix=prefix)
    process = subprocess.Popen([nginx(), "-e", str(folder / "error.log"), "-c", str(path)])
    try:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        assert process.poll() is None, (folder / "error.log").read_text()
        yield f"https://127.0.0.1:{port}{PREFIX if prefix else ''}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("prefix", [False, True])
def test_nginx_accepts_the_example(tmp_path: Path, prefix: bool) -> None:
    path = write_configuration(tmp_path, 8443, "127.0.0.1:8080", prefix=prefix)
    assert "warn" not in run(nginx(), "-t", "-e", tmp_path / "error.log", "-c", path)


def test_caddy_accepts_the_example() -> None:
    caddy = program("caddy", "apt-get install caddy")
    arguments = ("--config", DEPLOY / "caddy" / "Caddyfile", "--adapter", "caddyfile")
    assert "Valid configuration" in run(caddy, "validate", *arguments)


@pytest.mark.skipif(
    shutil.which("nginx", path="/usr/sbin:/usr/bin") is None,
    reason="nginx is not installed. As root: apt-get install nginx",
)
@pytest.mark.parametrize("prefix", [False, True], ids=["at the root", "under a path"])
def test_messages_long_polls_and_pages_pass_through_nginx(
    dsn: str, serve: Callable[..., Any], tmp_path: Path, prefix: bool
) -> None:
    port = free_port()
    server = serve(
        dsn,
        secure_cookies="on",
        trusted_proxies=parse_networks("127.0.0.1"),
        auth_failures=3,
        public_url=f"https://127.0.0.1:{port}{PREFIX}" if prefix else "",
    )
    try:
        made = new_key("admin", ["admin"])
        server.run(made.command)
        with running(tmp_path, port, urlsplit(server.url).netloc, prefix=prefix) as url:
            headers = {"Authorization": f"Bearer {made.token}"}
            with httpx.Client(base_url=url, headers=headers, verify=False, timeout=60) as client:
                check_traffic(client, dsn)
            if prefix:
                outside = f"{url.removesuffix(PREFIX)}/healthz/ready"
                assert httpx.get(outside, verify=False).status_code == 404
    finally:
        server.stop()


def check_traffic(client: httpx.Client, dsn: str) -> None:
    assert client.get("/healthz/ready").json() == {"status": "ready"}
    waited: list[httpx.Response] = []
    poll = {"topic": "orders", "wait_seconds": 20}
    client.put("/api/topic-configs/orders", json={}).raise_for_status()
    waiting = threading.Thread(
        target=lambda: waited.append(client.post("/api/messages/dequeue", json=poll))
    )
    waiting.start()
    large = {"topic": "orders", "json": "x" * 200_000}
    client.post("/api/messages", json=large).raise_for_status()
    waiting.join()
    assert len(waited[0].json()["messages"]) == 1
    page = client.get("/login", headers={"Accept": "text/html"})
    assert page.headers["Strict-Transport-Security"] == "max-age=31536000"
    links = set(re.findall(r' (?:href|src|action)="(/[^"?]*)', page.text))
    assert links
    assert all(link.startswith(client.base_url.path) for link in links)
    for link in links:
        assert client.get(client.base_url.copy_with(path=link)).status_code < 400
    # An address that the caller claims is not believed: the log has that of nginx's caller.
    client.post("/api/topics/orders/pause", headers={"X-Forwarded-For": "203.0.113.9"})
    with psycopg.connect(dsn) as connection:
        found = connection.execute("select distinct address from penstock.activity").fetchall()
    assert found == [("127.0.0.1",)]
