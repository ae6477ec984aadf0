"""The history of a message: its events in order, with durations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from penstock.model.access import Activity
from penstock.model.message import Message
from penstock.server.ui.activity_text import describe
from penstock.server.ui.formats import duration


@dataclass(frozen=True, slots=True)
class Event:
    """One event, past or next. `kind` chooses its icon."""

    kind: str
    title: str
    at: datetime | None
    text: str | None = None
    worker: str | None = None
    error: str | None = None
    seconds: float | None = None  # since the previous event


def timeline(message: Message, now: datetime, acts: Sequence[Activity] = ()) -> list[Event]:
    """From the enqueue to the end or to now, with the actions of operators."""
    events = [Event("enqueued", "Enqueued", message.enqueued_at, _entry(message))]
    for attempt in message.attempts:
        took = (attempt.ended_at - attempt.started_at).total_seconds() if attempt.ended_at else None
        events.append(
            Event(
                "failed",
                f"Attempt {attempt.attempt} failed",
                attempt.started_at,
                None if took is None else f"after {duration(took)} of work",
                attempt.worker,
                attempt.error,
            )
        )
    events.append(_now(message, now))
    events += [Event("user", describe(act), act.at, f"by {act.actor}") for act in acts]
    # Python keeps the order of equal times. Events without a time come last.
    events.sort(key=lambda event: event.at or now)
    return [_since(event, before) for event, before in zip(events, [None, *events], strict=False)]


def _entry(message: Message) -> str:
    words = [f"into {message.original_queue or message.queue}"]
    if message.key is not None:
        words.append(f"with key {message.key}")
    if message.group is not None:
        words.append(f"in group {message.group}")
    if message.priority:
        words.append(f"at priority {message.priority}")
    return ", ".join(words)


def _now(message: Message, now: datetime) -> Event:
    """The current state, or the end."""
    left = None if message.max_attempts is None else message.max_attempts - message.attempt
    if message.finished_at is not None:
        took = ""
        if message.claimed_at is not None and message.state == "done":
            took = f"after {duration((message.finished_at - message.claimed_at).total_seconds())}"
            took += f" of work, at attempt {message.attempt}"
        title = {"done": "Done", "superseded": "Superseded by a newer message with its key"}
        return Event(
            message.state,
            title.get(message.state, message.state.capitalize()),
            message.finished_at,
            took or None,
            message.worker,
            _own_error(message) if message.state != "done" else None,
        )
    if message.state == "dead":
        text = f"after {_attempts(message.attempt)}; it stays until it is redriven or purged"
        return Event("dead", "Dead letter", message.dead_at, text, None, _own_error(message))
    if message.state == "leased":
        seconds = (message.lease_until - now).total_seconds() if message.lease_until else 0
        text = f"attempt {message.attempt} of {message.max_attempts}; the lease expires in "
        return Event(
            "leased", "In work", message.claimed_at, text + duration(seconds), message.worker
        )
    if message.state == "scheduled":
        rest = f"{_attempts(left)} left" if message.attempt else None
        return Event("scheduled", "Will be ready", message.visible_at, rest)
    text = "waits to be claimed"
    if message.attempt:
        text += f" again, {_attempts(left)} left"
    return Event("ready", "Ready", None, text)


def _attempts(number: int | None) -> str:
    return "1 attempt" if number == 1 else f"{number} attempts"


def _own_error(message: Message) -> str | None:
    """The error of the end, unless that of the last attempt above it has the same text."""
    shown = message.attempts[-1].error if message.attempts else None
    return None if message.last_error == shown else message.last_error


def _since(event: Event, before: Event | None) -> Event:
    if before is None or before.at is None or event.at is None:
        return event
    seconds = (event.at - before.at).total_seconds()
    return replace(event, seconds=seconds)
