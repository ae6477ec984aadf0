"""POST to a configured URL, and to no other: redirects are not followed, proxies are not used."""

from __future__ import annotations

import hashlib
import hmac
import logging
from dataclasses import dataclass, field
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from penstock.push.http_sender import HttpSender, SendError
from penstock.push.networks import AllowedNetworks

log: Final = logging.getLogger("penstock.server")
TIMEOUT_SECONDS: Final = 10.0
# After a failure, the pause before the next try doubles between these.
FIRST_PAUSE_SECONDS: Final = 15.0
LONGEST_PAUSE_SECONDS: Final = 600.0
SIGNATURE: Final = "Penstock-Signature"


class DeliveryError(Exception):
    """The receiver did not accept the message. `retry_after` is its requested pause in seconds."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Destination:
    """The URL of a receiver. Logs show its host only, because the URL may be secret."""

    name: str
    url: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "?"

    async def post(self, body: bytes) -> None:
        """Send it once. DeliveryError unless the response is a 2xx."""
        headers = {"Content-Type": "application/json", "User-Agent": "penstock"}
        if self.secret is not None:
            headers[SIGNATURE] = sign(self.secret, body)
        sender = HttpSender(AllowedNetworks(everything=True))
        try:
            answer = await sender.post(self.url, body, headers, TIMEOUT_SECONDS)
        except SendError as error:
            raise DeliveryError(str(error)) from error
        finally:
            await sender.close()
        if not answer.is_success:
            raise DeliveryError(f"status {answer.status}", answer.retry_after)


class Channel:
    """A destination, and when it may be tried again after it has failed."""

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self._pause = 0.0
        self._not_before = float("-inf")

    @property
    def is_ready(self) -> bool:
        return monotonic() >= self._not_before

    async def send(self, body: bytes) -> bool:
        """Whether the destination has accepted it."""
        try:
            await self.destination.post(body)
        except DeliveryError as error:
            self._pause = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
            wait = max(self._pause, min(error.retry_after, LONGEST_PAUSE_SECONDS))
            self._not_before = monotonic() + wait
            log.warning("the %s at %s did not take a notification: %s; the next try is in %.0f s",
                        self.destination.name, self.destination.host, error, wait)  # fmt: skip
            return False
        self._pause, self._not_before = 0.0, float("-inf")
        return True


def sign(secret: str, body: bytes) -> str:
    """The receiver computes the same over the received body, and compares."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
