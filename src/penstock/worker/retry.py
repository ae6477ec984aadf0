"""When a failed message is tried again, for handlers that need another rule than the queue's."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from penstock.commands import arguments as check
from penstock.model.queue import Backoff
from penstock.worker.outcomes import Outcome, Reject, Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """What happens after a handler has failed.

    Attributes:
        backoff: The delay before the next attempt. None stands for the backoff of the queue.
        max_attempts: The number of attempts, if it is lower than that of the message.
        reject: Exceptions that make the message a dead letter at once.
    """

    backoff: Backoff | None = None
    max_attempts: int | None = None
    reject: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if self.backoff is not None and not isinstance(self.backoff, Backoff):
            raise check.refuse("backoff", self.backoff, "a Backoff")
        attempts = check.optional_whole("max_attempts", self.max_attempts)
        if attempts is not None and attempts < 1:
            raise check.refuse("max_attempts", self.max_attempts, "1 or more")
        kinds = isinstance(self.reject, tuple) and all(
            isinstance(kind, type) and issubclass(kind, BaseException) for kind in self.reject
        )
        if not kinds:
            raise check.refuse("reject", self.reject, "a tuple of exception classes")

    def outcome(self, error: BaseException, attempt: int) -> Outcome:
        """Return what happens to a message after a failed attempt.

        Args:
            error: The exception of the handler.
            attempt: The number of the attempt, counted from 1.

        Returns:
            A Retry, or a Reject.
        """
        if isinstance(error, self.reject):
            return Reject(error)
        if self.max_attempts is not None and attempt >= self.max_attempts:
            return Reject(error)
        return Retry(None if self.backoff is None else delay(self.backoff, attempt), error)


def delay(rule: Backoff, attempt: int) -> timedelta:
    """Computed as in the database: penstock._backoff."""
    factor = {"exponential": 2.0 ** min(attempt - 1, 60), "linear": float(attempt)}.get(
        rule.kind, 1
    )
    seconds = min(rule.max_seconds, rule.base_seconds * factor)
    return timedelta(seconds=seconds * (1 - rule.jitter * random.random()))
