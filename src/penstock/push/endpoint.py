"""The handler of a subscription: it sends one message, and decides about the message.

A 2xx acks the message. A 410 disables the subscription and gives the message back. Any other
answer, and a missing one, is a failed attempt: the queue's backoff and `max_attempts` decide the
rest.

An endpoint that always fails is tried with one message at a time, at growing intervals, so that an
outage does not use up the attempts of all messages.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from penstock.commands import lease_row as c
from penstock.model.subscription import Subscription
from penstock.push.http_sender import Answer, HttpSender, SendError
from penstock.push.signing import signed_headers
from penstock.worker.delivery import Delivery
from penstock.worker.outcomes import Outcome, Retry, Snooze
from penstock.worker.runner import Runner

# The number of failures in a row after which the endpoint counts as down.
FAILURES: Final = 5
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
# The server stops claiming for a disabled subscription in less time than this.
GONE_SECONDS: Final = 5.0


class Endpoint:
    """The endpoint of one subscription, and what is known about it."""

    def __init__(self, subscription: Subscription, secrets: list[str], sender: HttpSender) -> None:
        self.subscription = subscription
        self._secrets = secrets
        self._sender = sender
        self.delivered = self.failed = 0
        self.last_error: str | None = None
        self.gone: str | None = None
        self._in_a_row = 0
        self._pause = 0.0
        self._resuming: asyncio.TimerHandle | None = None

    async def handle(self, delivery: Delivery) -> Outcome | None:
        """Send the message. Failures are returned and not raised, because a dead letter shows what
        the endpoint did, and no traceback of the server."""
        if self.gone is not None:
            return Snooze(GONE_SECONDS)
        body, headers = _request(delivery)
        message_id = f"{delivery.queue}.{delivery.id}"
        headers |= signed_headers(self._secrets, message_id, int(time.time()), body)
        timeout = float(self.subscription.timeout_seconds)
        try:
            answer = await self._sender.post(self.subscription.url, body, headers, timeout)
        except SendError as error:
            self._note_failure(delivery, str(error))
            return Retry(error=str(error))
        if answer.is_success:
            self._note_success(delivery)
            return None
        if answer.status == 410:
            self.gone = "the endpoint answered 410 Gone"
            return Snooze(GONE_SECONDS)
        text = _described(answer)
        self._note_failure(delivery, text)
        return Retry(answer.retry_after or None, text)

    def stop(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()

    def _note_success(self, delivery: Delivery) -> None:
        self.delivered += 1
        self._in_a_row, self._pause = 0, 0.0
        runner = delivery._runner
        if runner.concurrency != self.subscription.concurrency:
            runner.concurrency = self.subscription.concurrency
            runner.on_settled()

    def _note_failure(self, delivery: Delivery, text: str) -> None:
        self.failed += 1
        self.last_error = text
        self._in_a_row += 1
        if self._in_a_row >= FAILURES and self._resuming is None:
            self._rest(delivery._runner)

    def _rest(self, runner: Runner) -> None:
        """Claim nothing for a while, then one message at a time."""
        self._pause = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
        runner.concurrency = 1
        runner.set_resting(True)

        def resume() -> None:
            self._resuming = None
            runner.set_resting(False)

        self._resuming = asyncio.get_running_loop().call_later(self._pause, resume)


def _request(delivery: Delivery) -> tuple[bytes, dict[str, str]]:
    """The stored payload, and headers about the message."""
    payload, raw = delivery._row[c.PAYLOAD], delivery._row[c.PAYLOAD_BYTES]
    kind = "application/json" if raw is None else "application/octet-stream"
    headers = {
        "content-type": kind,
        "user-agent": "penstock",
        "penstock-queue": delivery.queue,
        "penstock-message-id": str(delivery.id),
        "penstock-attempt": str(delivery.attempt),
    }
    trace = delivery.headers.get("traceparent")
    if isinstance(trace, str) and trace.isascii() and trace.isprintable():
        headers["traceparent"] = trace
    return bytes(raw) if raw is not None else (payload or "null").encode(), headers


def _described(answer: Answer) -> str:
    text = " ".join(answer.body[:500].decode("utf-8", "replace").replace("\0", " ").split())
    return f"status {answer.status}" + (f": {text}" if text else "")
