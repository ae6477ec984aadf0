"""Creates the queues and schedules of the demo, and removes them.

`demo.json` in PENSTOCK_HOME lists what the demo created, so that a queue that the user created
under one of these names is never touched. A process that reads or changes the list holds an
exclusive lock on it. A process that runs the demo holds a shared lock on `demo.lock`, and removal
needs an exclusive one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from penstock import Client
from penstock.commands.command import Command, scalar
from penstock.db.embedded.postmaster import open_lock, try_lock
from penstock.demo.queues import QUEUES, SCHEDULES, SETTINGS
from penstock.errors import ConfigurationError, QueueNotFoundError, ScheduleNotFoundError
from penstock.sql.loader import load_query

LIST: Final = "demo.json"
LOCK: Final = "demo.lock"
WORKER: Final = "demo-worker"


@dataclass(frozen=True, slots=True)
class Names:
    """Queues and schedules, by name."""

    queues: list[str]
    schedules: list[str]


@dataclass(frozen=True, slots=True)
class Removed:
    """What `remove` dropped. `history` is False if a lake may have it, so that it stayed."""

    queues: list[str]
    schedules: list[str]
    messages: int
    history: bool


@contextmanager
def installed(client: Client, home: Path) -> Iterator[list[str]]:
    """Create what is missing, and yield the queues. `remove` is refused while the body runs."""
    with _opened(home / LOCK) as running:
        fcntl.flock(running, fcntl.LOCK_SH)
        with _list(home) as file:
            _check_names(client, _read(file))
            # Written first, so that what a crash leaves behind counts as created by the demo.
            _write(file, Names(list(QUEUES), list(SCHEDULES)))
            _create(client)
        yield list(QUEUES)


def existing(client: Client, home: Path) -> Names:
    """The queues and schedules of the demo that still exist."""
    with _list(home) as file:
        return _existing(client, _read(file))


def remove(client: Client, home: Path) -> Removed:
    """Drop everything that the demo created. Refused while the demo runs."""
    with _opened(home / LOCK) as running:
        if not try_lock(running.fileno()):
            raise ConfigurationError(
                "the demo is running", hint="Stop `penstock up --demo` with Ctrl-C first."
            )
        with _list(home) as file:
            listed = _read(file)
            removed = _drop(client, listed, _existing(client, listed))
            _write(file, Names([], []))
        return removed


def _drop(client: Client, listed: Names, found: Names) -> Removed:
    """Drop what exists. A queue that the user has dropped already still has history."""
    messages = 0
    for name in found.schedules:
        with suppress(ScheduleNotFoundError):
            client.drop_schedule(name)
    for name in found.queues:
        with suppress(QueueNotFoundError):
            messages += client.drop_queue(name, force=True)
    return Removed(found.queues, found.schedules, messages, client.run(_forget(listed.queues)))


def _forget(queues: list[str]) -> Command[bool]:
    params = {"queues": queues, "workers": f"^{WORKER}-[0-9]+$"}
    return Command(load_query("demo/forget"), params, scalar)


def _create(client: Client) -> None:
    for name, settings in QUEUES.items():
        client.create_queue(name, SETTINGS, exist_ok=True, **settings)
    for name, (queue, cron, payload) in SCHEDULES.items():
        client.create_schedule(name, queue, cron, payload, exist_ok=True)


def _existing(client: Client, listed: Names) -> Names:
    queues = {queue.name for queue in client.queues()}
    schedules = {schedule.name for schedule in client.schedules()}
    return Names(
        [name for name in listed.queues if name in queues],
        [name for name in listed.schedules if name in schedules],
    )


def _check_names(client: Client, ours: Names) -> None:
    taken = _existing(client, Names(list(QUEUES), list(SCHEDULES)))
    for kind, found, own in (
        ("queue", taken.queues, ours.queues),
        ("schedule", taken.schedules, ours.schedules),
    ):
        for name in found:
            if name not in own:
                raise ConfigurationError(
                    f"{kind} {name!r} exists, and the demo did not create it",
                    hint="The demo needs this name. Set PENSTOCK_HOME to another directory "
                    "to run the demo in a separate database.",
                )


@contextmanager
def _list(home: Path) -> Iterator[IO[str]]:
    with _opened(home / LIST) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _opened(path: Path) -> IO[str]:
    return os.fdopen(open_lock(path), "r+", encoding="utf-8")


def _read(file: IO[str]) -> Names:
    file.seek(0)
    text = file.read()
    try:
        return Names(**json.loads(text)) if text else Names([], [])
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{LIST} in PENSTOCK_HOME cannot be read: {error}",
            hint="Drop the queues of the demo with `penstock queue drop`, then delete the file.",
        ) from None


def _write(file: IO[str], names: Names) -> None:
    file.seek(0)
    file.truncate()
    if names.queues or names.schedules:
        json.dump({"queues": names.queues, "schedules": names.schedules}, file)
    file.flush()
