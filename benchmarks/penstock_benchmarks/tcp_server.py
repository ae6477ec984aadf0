"""A PostgreSQL that is thrown away, on a TCP port of loopback: JDBC cannot use a socket file."""

import secrets
import shlex
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.db.embedded.account import choose
from penstock.db.embedded.binaries import bin_directory, usable_by
from penstock_benchmarks.errors import BenchError

SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "max_connections": "50",
    "jit": "off",
    "unix_socket_directories": "",
}


@contextmanager
def tcp_server(settings: Mapping[str, str] = SETTINGS) -> Iterator[str]:
    """Its DSN, with a random password. The server is deleted at the end."""
    home = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    home.chmod(0o711)
    data = home / "room" / "data"
    account = choose(home, data)
    data.parent.mkdir(mode=0o700)
    account.give(data.parent)
    programs = usable_by(account, bin_directory(data, None))

    def run(*command: str) -> None:
        done = account.run([programs / command[0], *command[1:]], cwd=data.parent)
        if done.returncode != 0:
            raise BenchError(f"{command[0]} failed: {done.stdout.strip()}")

    port, password = _free_port(), secrets.token_urlsafe(16)
    options = {**settings, "listen_addresses": "127.0.0.1", "port": str(port)}
    line = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in options.items())
    access = ["--auth=scram-sha-256", "--pwfile=password", "--username=bench"]
    account.run(["sh", "-ec", "cat > password"], cwd=data.parent, text=f"{password}\n")
    try:
        run("initdb", "-D", "data", "--encoding=UTF8", "--locale=C", *access)
        run("pg_ctl", "start", "-D", "data", "-w", "-l", "log", "-o", line)
        try:
            yield f"postgresql://bench:{password}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "stop", "-D", "data", "-m", "immediate")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
