"""The PostgreSQL that comes with Penstock: started on demand, shared by processes, durable.

It listens on no network. Its socket is in a private directory, and the kernel reports the user at
the other end. Only the owner of the home and root are admitted. When the last process that uses the
server ends, even by a kill, the server stops. The next process starts it again, and PostgreSQL
recovers from a crash.
"""

from __future__ import annotations

import atexit
import threading
from pathlib import Path

from penstock.db.embedded.server import EmbeddedPostgres
from penstock.settings import Settings

__all__ = ["EmbeddedPostgres", "connect_dsn"]

# A process needs one handle for each home, and holds it until it ends.
_held: dict[Path, EmbeddedPostgres] = {}
_held_lock = threading.Lock()


def connect_dsn(settings: Settings) -> str:
    """The given DSN, or that of the embedded server, which is started if necessary."""
    if settings.dsn is not None:
        return settings.dsn
    with _held_lock:
        held = _held.get(settings.home)
        if held is None or held.pid is None:
            if not _held:
                atexit.register(_release)
            _held[settings.home] = EmbeddedPostgres.start(settings.home)
            if held is not None:
                held.stop()
        return _held[settings.home].dsn


def _release() -> None:
    with _held_lock:
        while _held:
            _held.popitem()[1].stop()
