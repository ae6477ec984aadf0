"""The data directory and what surrounds it: made, configured and started.

<home>/server/            a link to a place below /var/lib/penstock where the user that runs
                          the server cannot enter the home: root only
<home>/server/postgres/   the data
<home>/server/run/        the socket, if its name is short enough there
<home>/server/access/     who may connect
<home>/server/postgres.log
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.db.embedded import postmaster
from penstock.db.embedded.account import choose, user_name
from penstock.db.embedded.binaries import bin_directory, make_system_place, usable_by
from penstock.errors import ConfigurationError, DatabaseUnavailableError

USER: Final = "penstock"
PORT: Final = 5432  # only a part of the socket's name
START_SECONDS: Final = 120
# The limit of macOS, the smaller one, for the path of a socket, less "/.s.PGSQL.5432" and the end.
MAX_SOCKET_DIRECTORY: Final = 103 - 14
LOG_BYTES: Final = 10 * 2**20

# Written once, into postgresql.conf, so that the owner can change them.
TUNING: Final = """
# Penstock's own settings. Change them here or with ALTER SYSTEM.
fsync = on                        # a committed message survives a power cut
synchronous_commit = on
max_connections = 100
shared_buffers = 128MB
max_wal_size = 2GB
checkpoint_timeout = 15min        # fewer full pages in the WAL; recovery stays under 2 GB of it
jit = off                         # the queue's statements are short
timezone = 'UTC'
log_timezone = 'UTC'
log_checkpoints = off             # the log is for errors
"""


class Cluster:
    """One data directory in one home. The caller of its methods holds the turn lock."""

    def __init__(self, home: Path, bin_dir: Path | None = None) -> None:
        self.home = home
        self._room = home / "server"
        self.account = choose(home, self.data)
        self._open_room()
        self._bin = usable_by(self.account, bin_directory(self.data, bin_dir))

    @property
    def data(self) -> Path:
        return self._room / "postgres"

    @property
    def log(self) -> Path:
        return self._room / "postgres.log"

    def _open_room(self) -> None:
        if not self._room.is_symlink() and not self._room.exists():
            self._make_room()
        if not self._room.exists():
            raise ConfigurationError(
                f"{self._room} leads to {os.readlink(self._room)}, which no longer exists",
                hint="Restore that directory, or remove the link to start without data.",
            )
        self._room = self._room.resolve()

    def _make_room(self) -> None:
        if not self.account.is_self and not self.account.may_enter(self.home):
            # Other users may pass through, but read and open nothing.
            self.home.chmod(stat.S_IMODE(self.home.stat().st_mode) | 0o011)
        if self.account.may_enter(self.home):
            self._room.mkdir(mode=0o700)
            self.account.give(self._room)
            return
        elsewhere = Path(tempfile.mkdtemp(prefix="server-", dir=make_system_place()))
        self.account.give(elsewhere)
        self._room.symlink_to(elsewhere)

    def create(self) -> None:
        """Creates the data directory if there is none. A failure leaves nothing."""
        if self.data.exists():
            return
        fresh = f"initdb-{os.getpid()}"
        self._shell("rm -rf initdb-*")
        self._initdb(fresh)
        self._shell(f"cat >> {fresh}/postgresql.conf", TUNING)
        _sync(self._room / fresh / "postgresql.conf")
        self._shell(f"mv {fresh} {self.data.name}")
        _sync(self._room)

    def _initdb(self, name: str) -> None:
        # Collation C: the order of keys does not change with the system's locales.
        options = ["--encoding=UTF8", "--locale=C", "--data-checksums", f"--username={USER}"]
        options += ["--auth-local=peer", "--auth-host=reject", "--no-instructions"]
        self._run([self._bin / "initdb", *options, f"--pgdata={name}"], "create")

    def _shell(self, script: str, text: str | None = None) -> None:
        """Runs as the owner of the directory: root never writes where others could place links."""
        self._run(["sh", "-ec", script], "prepare", text)

    def _run(self, command: list[str | Path], verb: str, text: str | None = None) -> None:
        done = self.account.run(command, cwd=self._room, text=text)
        if done.returncode != 0:
            raise DatabaseUnavailableError(
                f"could not {verb} the embedded PostgreSQL in {self._room}",
                hint=f"{_way_out(done.stdout)} Its output:\n{_tail(done.stdout)}",
            )

    def ensure_running(self, settings: Mapping[str, str]) -> postmaster.Postmaster:
        """The running server, or a new one with `settings` on its command line."""
        if postmaster.running(self.data) is None:
            self._clear_traces()
            self._start(settings)
        return self._wait_until_ready()

    def _clear_traces(self) -> None:
        """Removes files of a killed server that would stop the next start, such as a reused pid."""
        stale = postmaster.read(self.data)
        if stale is None:
            return
        self._wait_for_orphans()
        # Otherwise the file stays: PostgreSQL uses it to find shared memory that is still in use.
        if sys.platform == "linux" and postmaster.exists(stale.pid):
            self._shell(f"rm -f {self.data.name}/postmaster.pid")

    def _wait_for_orphans(self) -> None:
        deadline = time.monotonic() + 30
        while left := postmaster.orphans(self.data):
            if time.monotonic() > deadline:
                raise DatabaseUnavailableError(
                    f"the embedded PostgreSQL was killed, and its processes "
                    f"{', '.join(map(str, left))} still use {self.data}",
                    hint="End these processes, then try again.",
                )
            time.sleep(0.02)

    def _start(self, settings: Mapping[str, str]) -> None:
        self._write_access()
        self._turn_log()
        options = {
            **settings,
            "listen_addresses": "",  # no network at all
            "port": str(PORT),
            "unix_socket_directories": str(self._socket_directory()),
            "unix_socket_permissions": "0700",
            "hba_file": str(self._room / "access" / "pg_hba.conf"),
            "ident_file": str(self._room / "access" / "pg_ident.conf"),
        }
        line = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in options.items())
        # Relative names, because pg_ctl passes them to a shell in double quotes, which expands a $.
        where = ["-D", self.data.name, "-l", self.log.name]
        wait = ["-w", "-t", str(START_SECONDS)]
        done = self.account.run(
            [self._bin / "pg_ctl", "start", *where, *wait, "-o", line], cwd=self._room
        )
        if done.returncode != 0 and postmaster.running(self.data) is None:
            raise self._not_started(done.stdout)

    def _write_access(self) -> None:
        """Only these users are admitted. The kernel reports the user of the other end."""
        names = {"root"} if self.account.stand_in else {"root", user_name(self.account.uid)}
        # From PostgreSQL 16 on `all` means any role. In earlier versions it is only a name.
        lines = [f'penstock "{n}" {role}\n' for n in sorted(names) for role in (USER, "all")]
        self._shell("mkdir -p access; cat > access/pg_ident.conf", "".join(lines))
        self._shell("cat > access/pg_hba.conf", "local all all peer map=penstock\n")

    def _turn_log(self) -> None:
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self._shell(f"mv {self.log.name} {self.log.name}.1")

    def _socket_directory(self) -> Path:
        """The directory of the server if libpq and PostgreSQL accept its path, or a short one."""
        run = self._room / "run"
        plain = re.fullmatch(r"[\w./+-]+", str(run), re.ASCII)
        if plain and len(str(run)) <= MAX_SOCKET_DIRECTORY:
            self._shell("mkdir -p run")
        else:
            run = self._short_directory()
        # The directory is private, and no server is running.
        self._shell(f"rm -f {run}/.s.PGSQL.*")
        return run

    def _short_directory(self) -> Path:
        """The previous server's directory, where its clients look, or a new private one."""
        note = self._room / "socket_directory"
        if note.exists() and self._is_private(kept := Path(note.read_text())):
            return kept
        fresh = Path(tempfile.mkdtemp(prefix=postmaster.SHORT_PREFIX))
        self.account.give(fresh)
        self._shell("cat > socket_directory", str(fresh))
        return fresh

    def _is_private(self, directory: Path) -> bool:
        """The directory must belong to this user and be no link: any user can write to /tmp."""
        try:
            found = directory.lstat()
        except OSError:
            return False
        mine = stat.S_ISDIR(found.st_mode) and found.st_uid == self.account.uid
        return mine and stat.S_IMODE(found.st_mode) == 0o700

    def _wait_until_ready(self) -> postmaster.Postmaster:
        deadline = time.monotonic() + START_SECONDS
        while server := postmaster.running(self.data):
            if server.ready:
                return server
            if time.monotonic() > deadline:
                raise DatabaseUnavailableError(
                    f"the embedded PostgreSQL is still recovering; see {self.log}",
                    hint="It continues in the background. Try again later.",
                )
            time.sleep(0.02)
        raise self._not_started("")

    def _not_started(self, said: str) -> DatabaseUnavailableError:
        try:
            written = self.log.read_text(errors="replace")
        except OSError:
            written = ""
        tail = _tail(written) or _tail(said)
        return DatabaseUnavailableError(
            "the embedded PostgreSQL did not start",
            hint=f"{_way_out(tail)} The end of {self.log}:\n{tail}",
        )


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    os.fsync(handle)
    os.close(handle)


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines()[-lines:])


def _way_out(said: str) -> str:
    if "No space left" in said:
        return "The disk is full. Free some space, then try again."
    if "Read-only file system" in said or "Permission denied" in said:
        return "Set PENSTOCK_HOME to a directory that can be written."
    if "could not look up effective user" in said:
        return (
            "PostgreSQL needs a user that has a name. Run Penstock as another user, or set "
            "PENSTOCK_DSN to another PostgreSQL."
        )
    return "Correct the reported problem and try again, or set PENSTOCK_DSN to another PostgreSQL."
