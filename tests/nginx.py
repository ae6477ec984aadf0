"""A real nginx in front of a server: TLS on loopback, under a path."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PREFIX = "/ops/penstock"
# `{slash}` decides whether nginx passes the prefix on: with a path here it replaces the prefix.
CONFIGURATION = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  gzip on;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/certificate.pem;
    ssl_certificate_key {folder}/key.pem;
    location {prefix}/ {{
      proxy_pass {upstream}{slash};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      {more}
    }}
  }}
}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_nginx(
    folder: Path, port: int, upstream: str, *, strips: bool = False, more: str = ""
) -> Iterator[str]:
    """The address under which it publishes the upstream server, once it answers."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        pytest.skip("nginx is not installed. As root: apt-get install nginx")
    folder.mkdir(parents=True, exist_ok=True)
    _write_certificate(folder)
    path = folder / "nginx.conf"
    path.write_text(
        CONFIGURATION.format(
            folder=folder,
            port=port,
            prefix=PREFIX,
            upstream=upstream,
            slash="/" if strips else "",
            more=more,
        )
    )
    command = [program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(path)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        _await_listening(process, port)
        yield f"https://127.0.0.1:{port}{PREFIX}"
    finally:
        process.terminate()
        process.wait()


def trusting(folder: Path) -> ssl.SSLContext:
    """A context that trusts its certificate and no other."""
    return ssl.create_default_context(cafile=str(folder / "certificate.pem"))


def _await_listening(process: subprocess.Popen[bytes], port: int) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"nginx ended with {process.returncode}")


def _write_certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Penstock tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
