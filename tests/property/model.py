"""The rules of a queue in plain Python: what a message may become, and who may see it.

A `Layer` is what one session sees: the committed messages, and the changes of its open
transaction. Nothing here knows of SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

LEASE_EXPIRED = "the lease expired"
UNCOMMITTED = 1 << 60
"""The first part of a place in a group, until the commit decides it."""


@dataclass(frozen=True)
class Queue:
    name: str
    plain: bool = True  # takes no groups, priorities or ttls: the fast paths
    keep_history: int = 7
    dlq_enabled: bool = True
    max_attempts: int = 2
    max_depth: int | None = None
    max_in_flight: int | None = None

    def settings(self) -> dict[str, Any]:
        names = ("keep_history", "dlq_enabled", "max_attempts", "max_depth", "max_in_flight")
        return {name: getattr(self, name) for name in names} | {"lease_seconds": 600}


@dataclass(frozen=True)
class Message:
    id: int
    queue: str
    payload: Any = field(repr=False)
    payload_bytes: bytes | None = field(default=None, repr=False)
    headers: Any = None
    key: str | None = None
    priority: int = 0
    group: str | None = None
    max_attempts: int = 2
    attempt: int = 0
    state: str = "waiting"  # waiting, leased, dead; or finished: done, dead, expired, ...
    finished: bool = False
    due: bool = True
    has_ttl: bool = False
    outlived: bool = False  # its time to live is over, though no session may have noticed
    token: int | None = None
    over: bool = False  # its lease has expired, though no session may have noticed
    dead_letter: bool = False
    last_error: str | None = None
    place: tuple[int, int, int] = (0, 0, 0)  # in its group: by commit, then by enqueue
    attempts_logged: int = 0
    in_order: bool = False  # nothing came between its enqueue and its first delivery
    moved_at: int = 0  # the step at which it became available again, for timers to see

    @property
    def held(self) -> bool:
        return self.state == "leased" and not self.over

    @property
    def unsettled(self) -> bool:
        """Counts against max_depth."""
        return not self.finished and not self.dead_letter

    @property
    def claimable(self) -> bool:
        """By itself, leaving its group and all locks aside."""
        if self.finished or self.dead_letter or self.outlived:
            return False
        if self.state == "waiting":
            return self.due
        return self.over and self.attempt < self.max_attempts

    def shown_as(self) -> str:
        if self.state == "waiting":
            return "ready" if self.due else "scheduled"
        if self.state == "leased" and self.over:
            return "dead" if self.dead_letter else "ready"
        return self.state


@dataclass
class Layer:
    """What one session sees. A session without a transaction has an empty `own`."""

    committed: dict[int, Message]
    own: dict[int, Message] = field(default_factory=dict)

    def __getitem__(self, message_id: int) -> Message:
        return self.own.get(message_id) or self.committed[message_id]

    def __iter__(self) -> Iterator[Message]:
        for message_id, message in self.committed.items():
            yield self.own.get(message_id, message)
        for message_id, message in self.own.items():
            if message_id not in self.committed:
                yield message

    def put(self, message: Message) -> Message:
        self.own[message.id] = message
        return message

    def change(self, message: Message, **changes: Any) -> Message:
        return self.put(replace(message, **changes))

    def of(self, queue: str) -> list[Message]:
        return [m for m in self if m.queue == queue]

    def with_key(self, queue: str, key: str, state: str) -> list[Message]:
        return [
            m
            for m in self
            if not m.finished
            and m.unsettled
            and m.queue == queue
            and m.key == key
            and m.state == state
        ]

    def group(self, queue: str, group: str) -> list[Message]:
        """The unfinished messages of a group, in order."""
        members = [m for m in self if m.unsettled and m.queue == queue and m.group == group]
        return sorted(members, key=lambda m: m.place)


def finish(layer: Layer, message: Message, state: str, **changes: Any) -> None:
    layer.change(message, state=state, finished=True, token=None, over=False, **changes)


def bury(layer: Layer, queue: Queue, message: Message, **changes: Any) -> str:
    """A message is dead: among the dead letters, or in history where the queue has none."""
    if queue.dlq_enabled:
        logged = message.attempts_logged + 1
        layer.change(
            message,
            state="dead",
            dead_letter=True,
            token=None,
            over=False,
            outlived=False,
            has_ttl=False,
            attempts_logged=logged,
            **changes,
        )
    else:
        finish(layer, message, "dead", **changes)
    return "dead"


def yields(layer: Layer, message: Message) -> bool:
    """A message with a key comes back: it yields to a newer one; an older one yields to it."""
    if message.key is None:
        return False
    for rival in layer.with_key(message.queue, message.key, "waiting"):
        if rival.id == message.id:
            continue
        if rival.outlived:
            finish(layer, rival, "expired")
        elif rival.id > message.id:
            return True
        else:
            finish(layer, rival, "superseded")
    return False


def give_back(
    layer: Layer,
    queue: Queue,
    message: Message,
    *,
    error: str | None,
    later: bool,
    give_up: bool = False,
    free: bool = False,
    step: int = 0,
) -> str:
    """nack, reject, snooze (`free`: the attempt does not count), or an expired lease."""
    error = error or message.last_error
    attempt = message.attempt - 1 if free else message.attempt
    if message.dead_letter:
        layer.change(
            message, state="dead", token=None, over=False, attempt=attempt, last_error=error
        )
        return "dead"
    if not free and (message.attempt >= message.max_attempts or give_up):
        return bury(layer, queue, message, last_error=error)
    if message.outlived:
        finish(layer, message, "expired", attempt=attempt, last_error=error)
        return "expired"
    if yields(layer, message):
        finish(layer, message, "superseded", attempt=attempt, last_error=error)
        return "superseded"
    layer.change(
        message,
        state="waiting",
        due=not later,
        token=None,
        over=False,
        attempt=attempt,
        last_error=error,
        in_order=False,
        moved_at=step,
        attempts_logged=message.attempts_logged + (not free),
    )
    return "scheduled" if later else "ready"


def resolutions(layer: Layer, queue: Queue, message: Message) -> list[Layer]:
    """The possible states of a message without a report, each as the layer after it."""
    possible = []

    def case() -> Layer:
        possible.append(Layer(layer.committed, dict(layer.own)))
        return possible[-1]

    if message.state == "leased" and message.over:
        give_back(case(), queue, message, error=LEASE_EXPIRED, later=False)
        if message.key is not None and not message.dead_letter:
            # A newer one may have waited for a moment, and no longer waits.
            finish(case(), message, "superseded", last_error=LEASE_EXPIRED)
            if not message.outlived and message.attempt < message.max_attempts:
                case().change(
                    message,
                    state="waiting",
                    due=True,
                    token=None,
                    over=False,
                    last_error=LEASE_EXPIRED,
                    attempts_logged=message.attempts_logged + 1,
                    in_order=False,
                )
    elif message.outlived and message.state == "waiting":
        finish(case(), message, "expired")
    if (
        message.state == "waiting"
        and message.key is not None
        and any(
            m.id > message.id for m in layer if m.key == message.key and m.queue == message.queue
        )
    ):
        finish(case(), message, "superseded")
    return possible
