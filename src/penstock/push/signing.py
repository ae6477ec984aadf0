"""Signatures by the Standard Webhooks specification, version 1."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

from penstock.errors import InvalidValueError
from penstock.secrets import SecretBox

PREFIX: Final = "whsec_"
# The specification asks for 24 to 64 bytes.
_LOW, _HIGH = 24, 64


def new_signing_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def check_signing_secret(secret: str) -> str:
    """The secret. InvalidValueError if it is not valid."""
    try:
        length = len(base64.b64decode(secret.removeprefix(PREFIX), validate=True))
    except (binascii.Error, ValueError):
        length = 0
    if not secret.startswith(PREFIX) or not _LOW <= length <= _HIGH:
        raise InvalidValueError(
            "the signing secret is not valid",  # the message does not show it
            hint=f"Allowed: {PREFIX} and the base64 of {_LOW} to {_HIGH} bytes. "
            "Without one, a secret is generated.",
            field="secret",
        )
    return secret


def sealed_secret(box: SecretBox, secret: str | None, old: str | None = None) -> str:
    """The new secret, encrypted together with the previous one, which signs too."""
    checked = new_signing_secret() if secret is None else check_signing_secret(secret)
    before = [] if old is None else box.open(old).split()[:1]
    return box.seal(" ".join(dict.fromkeys([checked, *before])))


def signed_headers(
    secrets: Sequence[str], message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """The headers of a request. Each secret makes a signature, so that secrets can be replaced."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_signature(each, signed) for each in secrets),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
