"""A PostgreSQL whose clock can be set while it runs, by libfaketime."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.crew import faketime_library

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.embedded.account import choose
from penstock.db.embedded.binaries import usable_by


class FakedServer:
    """`step` puts its clock so many seconds ahead of the machine's, or back; 0 is right."""

    def __init__(self, server: EmbeddedPostgres, offset: Path) -> None:
        self.dsn = server.dsn
        self._offset = offset

    def step(self, seconds: int) -> None:
        fresh = self._offset.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.chmod(0o644)
        os.replace(fresh, self._offset)


@contextmanager
def faked_server(home: Path, pg_bin: Path, settings: dict[str, str]) -> Iterator[FakedServer]:
    """Started through a pg_ctl that sets the environment: the server inherits it."""
    home.mkdir(mode=0o711, parents=True)
    programs = home.parent / "bin"
    programs.mkdir(mode=0o755)
    offset = home.parent / "offset"
    real = usable_by(choose(home, home / "server" / "postgres"), pg_bin)
    (programs / "postgres").symlink_to(real / "postgres")
    for name in ("initdb", "pg_ctl"):
        script = programs / name
        faked = (
            f"export LD_PRELOAD={faketime_library()} FAKETIME_TIMESTAMP_FILE={offset}\n"
            "export FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1\n"
        )
        script.write_text(f'#!/bin/sh\n{faked}exec {real / name} "$@"\n')
        script.chmod(0o755)
    offset.write_text("+0\n")
    offset.chmod(0o644)
    with EmbeddedPostgres.start(home, bin_dir=programs, settings=settings) as server:
        yield FakedServer(server, offset)
