"""The demo of `penstock up`. A separate process runs its worker and its traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.cli.child_process import child_process, end_with_parent
from penstock.client.sync_client import Client
from penstock.demo.installation import installed
from penstock.errors import ConfigurationError
from penstock.settings import Settings

LOG = "demo.log"


def check_embedded(settings: Settings) -> None:
    """Refuse a named database: the demo writes only to the embedded one."""
    if settings.dsn is not None:
        raise ConfigurationError(
            "the demo runs on the embedded PostgreSQL only, but another one is configured",
            hint="Leave out --dsn, and unset PENSTOCK_DSN and DATABASE_URL.",
        )


@contextmanager
def running_demo(dsn: str, home: Path) -> Iterator[list[str]]:
    """The queues of the demo. The output of its process is in demo.log."""
    with Client(dsn, min_size=1, max_size=1) as client, installed(client, home) as queues:
        client.close()
        with child_process("penstock.cli.up_demo", dsn=dsn, home=home, log=LOG):
            yield queues


def main() -> None:
    """The process of the demo."""
    from penstock.demo import process

    end_with_parent()
    process.main()
