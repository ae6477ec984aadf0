"""Secrets in the database, such as passwords of services: encrypted. The key is stored elsewhere.

| variable | meaning |
|---|---|
| `PENSTOCK_SECRET_KEY` | the key, from `penstock service new-key`; after a comma, older keys |
| `PENSTOCK_SECRET_KEY_FILE` | a file that contains it |

The first key encrypts. All of them decrypt, so that a key can be replaced: put the new one first,
then run `penstock service rekey`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

KEY: Final = "PENSTOCK_SECRET_KEY"
KEY_FILE: Final = "PENSTOCK_SECRET_KEY_FILE"
_NEW_KEY: Final = "Make a key with `penstock service new-key`, and set it for every server."


class SecretBox:
    """Encrypts and decrypts with Fernet: AES-128 in CBC mode with HMAC-SHA256."""

    def __init__(self, keys: str) -> None:
        self._fernet = _fernet(keys)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> SecretBox:
        found = os.environ if environment is None else environment
        keys = found.get(KEY, "").strip()
        if not keys and (file := found.get(KEY_FILE, "").strip()):
            keys = _read(file)
        return cls(keys)

    @property
    def has_key(self) -> bool:
        return self._fernet is not None

    def seal(self, secret: str) -> str:
        """The secret, encrypted. ConfigurationError without a key."""
        return self._box().encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str:
        """The secret. ConfigurationError if none of the keys encrypted it."""
        from cryptography.fernet import InvalidToken

        try:
            return self._box().decrypt(sealed.encode()).decode()
        except InvalidToken:
            raise ConfigurationError(
                "a stored secret was encrypted under another key",
                hint=f"Add the earlier key to {KEY}, after a comma, or enter the secret again.",
            ) from None

    def _box(self) -> MultiFernet:
        if self._fernet is None:
            raise ConfigurationError(
                f"a secret cannot be stored or read, because {KEY} is not set", hint=_NEW_KEY
            )
        return self._fernet


def new_secret_key() -> str:
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def _fernet(keys: str) -> MultiFernet | None:
    if not keys:
        return None
    from cryptography.fernet import Fernet, MultiFernet

    try:
        return MultiFernet([Fernet(each.strip()) for each in keys.split(",")])
    except ValueError:
        # The key is not shown.
        raise ConfigurationError(f"{KEY} is not a key", hint=_NEW_KEY) from None


def _read(file: str) -> str:
    try:
        return Path(file).read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{KEY_FILE} names {file}, which cannot be read: {error}", hint=_NEW_KEY
        ) from None
