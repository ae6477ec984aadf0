"""Users who sign in without a key: by OpenID Connect, or by a trusted proxy.

Their roles come from the identity provider or the proxy. `PENSTOCK_SSO_ROLES` maps each role to
scopes with queue patterns, as keys have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.model.access import Grant

Roles: TypeAlias = Mapping[str, tuple[Grant, ...]]
EVERYBODY: Final = "*"
"""The role of every user who signs in."""
_LONGEST_NAME: Final = 200


class SignInError(Exception):
    """A sign-in that did not succeed. The text is for the user."""


class UnknownUserError(SignInError):
    """The identity provider or the proxy knows the user, who may not sign in here."""


@dataclass(frozen=True, slots=True)
class User:
    """The user and the kind of sign-in. Roles without scopes are left out."""

    kind: Literal["sso", "proxy"]
    name: str
    roles: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The name in sessions and in the activity. No name of a key has a colon."""
        return f"{self.kind}:{self.name}"


def make_user(
    kind: Literal["sso", "proxy"], name: object, roles: Iterable[str], known: Roles
) -> User:
    """A user with at least one known role. Otherwise UnknownUserError."""
    if not isinstance(name, str) or not 0 < len(name.strip()) <= _LONGEST_NAME:
        raise UnknownUserError("The identity provider sent no name for you.")
    if not name.isprintable():
        raise UnknownUserError("Your name contains control characters.")
    held = tuple(sorted({*roles, EVERYBODY} & set(known)))
    if not held:
        raise UnknownUserError(f"{name.strip()} has no role on this server. Ask an administrator.")
    return User(kind, name.strip(), held)
