"""The running server: its users, its state and its end.

Every process that uses a server holds a shared lock on one file of its home. The kernel releases
the lock when the process ends, even by a kill, so no counter can be wrong. A process that gets the
lock exclusively knows that the server is unused, and stops it.

Run as a script, this file is the keeper: a small process, one for each home, that waits until it
gets the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

TURN_LOCK: Final = "turn.lock"  # held while starting or stopping: one process at a time
USE_LOCK: Final = "use.lock"  # held, shared, by every process that uses the server
KEEPER_LOCK: Final = "keeper.lock"  # held by the keeper

SHORT_PREFIX: Final = "/tmp/penstock-"  # socket directories for homes with long names
_HAS_PROC: Final = Path("/proc/self/cwd").exists()


class Postmaster(NamedTuple):
    """The content of postmaster.pid."""

    pid: int
    socket_directory: Path | None
    ready: bool


def read(data: Path) -> Postmaster | None:
    """The content of postmaster.pid, current or stale. None if it is missing or incomplete."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    lines += [""] * 8
    socket_directory = Path(lines[4]) if lines[4] else None
    return Postmaster(pid, socket_directory, lines[7].strip() == "ready")


def running(data: Path) -> Postmaster | None:
    """The server of this data directory, if it is running."""
    found = read(data)
    return found if found and lives(found.pid, data) else None


def lives(pid: int, data: Path) -> bool:
    """Whether the process is a server of this directory. Another process may have its pid now.

    A server has its data directory as working directory, other processes do not, and a zombie has
    none. `kill(pid, 0)`, which PostgreSQL uses, cannot tell either from a server.
    """
    if _HAS_PROC:
        return _works_in(str(pid), data)
    shown = subprocess.run(
        ["ps", "-o", "stat=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return "postgres" in shown and not shown.startswith("Z")


def orphans(data: Path) -> list[int]:
    """Processes of a killed server in its directory. Most of them end soon."""
    if not _HAS_PROC:
        return []
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and _works_in(p, data)]


def _works_in(pid: str, data: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(data)
    except OSError:
        return False


def exists(pid: int) -> bool:
    """Whether any process has this pid, including zombies and unrelated processes."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def stop(data: Path) -> None:
    """Stops the server cleanly. If that hangs, the next start has to recover."""
    server = running(data)
    if server is None:
        return
    for how, patience in ((signal.SIGINT, 60.0), (signal.SIGQUIT, 20.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, how)
        if ends_within(patience, server.pid, data):
            break
    remove_socket_directory(server.socket_directory)


def ends_within(seconds: float, pid: int, data: Path) -> bool:
    deadline = time.monotonic() + seconds
    while lives(pid, data):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def remove_socket_directory(directory: Path | None) -> None:
    """Only short directories are created for one run. Those in a home stay."""
    if directory is not None and str(directory).startswith(SHORT_PREFIX):
        with contextlib.suppress(OSError):
            directory.rmdir()


def open_lock(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if os.geteuid() == 0:
        # If root uses another user's home, its owner must still be able to take the lock.
        owner = path.parent.stat()
        os.fchown(lock, owner.st_uid, owner.st_gid)
    return lock


def try_lock(lock: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_free(path: Path) -> bool:
    """Whether no process holds the lock, shared or exclusive."""
    lock = open_lock(path)
    try:
        return try_lock(lock)
    finally:
        os.close(lock)


@contextlib.contextmanager
def turn(home: Path) -> Iterator[None]:
    """The turn lock: one process at a time, for every start and stop."""
    lock = open_lock(home / TURN_LOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        # Unlocked, not only closed, because a child that another thread has forked has a copy.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def stop_if_unused(home: Path, data: Path) -> bool:
    """Stop the server if no process uses it. True if it stopped. The caller holds the turn lock."""
    unused = _is_unused(home / USE_LOCK)
    if unused:
        stop(data)
    return unused


def _is_unused(path: Path) -> bool:
    lock = open_lock(path)
    try:
        if try_lock(lock):
            return True
        # The holder may be the keeper, which got the lock when the last user ended, and releases it
        # at once. Then it waits for the turn lock, which this process holds. So the second answer
        # is final.
        while not try_lock(lock, fcntl.LOCK_SH):
            time.sleep(0.0005)
        return try_lock(lock)
    finally:
        os.close(lock)


def keep(home: Path, data: Path) -> None:
    """Wait until no process uses the server, and stop it. A home has at most one keeper."""
    keeper = open_lock(home / KEEPER_LOCK)
    if not try_lock(keeper) or os.fork():
        return  # the caller waits for this process only; the child continues
    use = open_lock(home / USE_LOCK)
    while _same_file(use, home / USE_LOCK):
        fcntl.flock(use, fcntl.LOCK_EX)
        # Released before waiting for the turn lock, because its holder may be waiting for this
        # lock.
        fcntl.flock(use, fcntl.LOCK_UN)
        with contextlib.suppress(FileNotFoundError), turn(home):
            if _same_file(use, home / USE_LOCK) and stop_if_unused(home, data):
                os.close(keeper)  # with the turn lock: no start relies on an ending keeper
                return


def _same_file(lock: int, path: Path) -> bool:
    """False after the home was removed. Another one in its place belongs to another keeper."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
