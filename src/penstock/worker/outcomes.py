"""What a handler can decide, other than to return or to fail. Raise an outcome, or return it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final

from penstock.commands import arguments as check
from penstock.model.message import Duration

MAX_ERROR: Final = 8192
"""The largest number of characters of an error that the database keeps."""
# The same as in the database: interval '100 years'.
_LONGEST = timedelta(days=36_500)


class Outcome(Exception):  # noqa: N818 - not an error: a decision
    """The root of Retry, Snooze, Reject and Complete. They can be pickled."""

    verb: ClassVar[str]


class Retry(Outcome):
    """Give the message back, to be delivered again after a delay or the usual backoff.

    It counts as a failed attempt. The last attempt makes a dead letter.
    """

    verb = "nack"

    def __init__(self, after: Duration | None = None, error: str | BaseException | None = None):
        self.after = None if after is None else _delay("after", after)
        self.error = check.note("error", error)
        super().__init__(self.error or "the handler asked for another attempt")

    def __reduce__(self) -> tuple[Any, ...]:
        return Retry, (self.after, self.error)


class Snooze(Outcome):
    """Give the message back for a time because it is too early. The attempt does not count."""

    verb = "snooze"

    def __init__(self, delay: Duration):
        self.delay = _delay("delay", delay)
        super().__init__(f"snoozed for {self.delay}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Snooze, (self.delay,)


class Reject(Outcome):
    """Make the message a dead letter at once, because no further attempt would help."""

    verb = "reject"

    def __init__(self, reason: str | BaseException | None = None):
        self.reason = check.note("reason", reason)
        super().__init__(self.reason or "rejected by the handler")

    def __reduce__(self) -> tuple[Any, ...]:
        return Reject, (self.reason,)


class Complete(Outcome):
    """The message is done, and its ack stores more. For tasks, not for users."""

    verb = "complete"

    def __init__(self, value: str | None = None, keep_seconds: int | None = None):
        self.value = value
        self.keep_seconds = keep_seconds
        self.enqueues: Sequence[Mapping[str, Any]] = ()
        super().__init__("done")

    def __reduce__(self) -> tuple[Any, ...]:
        return Complete, (self.value, self.keep_seconds)


def cause_of(error: BaseException) -> BaseException:
    """The error that an outcome was raised from, or the error itself.

    An outcome that was raised `from None` has no cause, as in a traceback of Python.
    """
    if not isinstance(error, Outcome):
        return error
    context = None if error.__suppress_context__ else error.__context__
    return error.__cause__ or context or error


def keep_traceback(outcome: Outcome, error: BaseException) -> None:
    """Put the traceback below the text that the outcome leaves with the message.

    Both together have at most MAX_ERROR characters. The end of a traceback says most, so its
    beginning is left out. An outcome that the handler raised by itself is a decision, and has the
    traceback of the error that it was made of, if any.
    """
    cause = cause_of(error)
    if isinstance(cause, Outcome) or cause.__traceback__ is None:
        return
    text = str(outcome)[: MAX_ERROR // 2]
    lines = "".join(traceback.format_exception(cause))
    room = MAX_ERROR - len(text) - len("\n\n")
    if len(lines) > room:
        lines = "...\n" + lines[-room + len("...\n") :]
    kept = check.note("error", f"{text}\n\n{lines}")
    if isinstance(outcome, Reject):
        outcome.reason = kept
    elif isinstance(outcome, Retry):
        outcome.error = kept


def _delay(field: str, value: Duration) -> timedelta:
    delay = check.duration(field, value)
    if not timedelta() <= delay <= _LONGEST:
        raise check.refuse(field, value, "0 to 100 years")
    return delay
