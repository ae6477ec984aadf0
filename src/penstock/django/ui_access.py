"""Users of Django as visitors of the admin UI."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest
from django.utils.module_loading import import_string

from penstock.django.conf import penstock_settings
from penstock.errors import PermissionDeniedError
from penstock.model.access import Grant, Scope
from penstock.server.auth import tokens
from penstock.server.auth.authentication import Authenticator
from penstock.server.auth.principal import Principal
from penstock.server.auth.users import User

# The permissions of the app, the strongest first.
_PERMISSIONS: Final[tuple[tuple[str, Scope], ...]] = (
    ("penstock.administer_queues", "admin"),
    ("penstock.operate_queues", "operate"),
    ("penstock.read_queues", "read"),
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """A user with grants. `session` is secret, and differs between sessions."""

    principal: Principal
    session: str


class UserPrincipal(Principal):
    """A user of Django, known by the name in the activity log."""

    __slots__ = ()

    def _denied(self, scope: Scope, where: str | None, queue: str | None) -> PermissionDeniedError:
        return PermissionDeniedError(
            f"user {self.name!r} lacks the {scope!r} scope" + (f" for {where}" if where else ""),
            hint="Ask an administrator of the site for the permission.",
            scope=scope,
            queue=queue,
        )


def visitor_of(request: HttpRequest) -> Visitor | None:
    """The user of a request, if the user has grants for the UI."""
    user: Any = request.user
    grants = tuple(grants_of(user)) if user.is_authenticated and user.is_active else ()
    if not grants:
        return None
    session = request.session.session_key or ""
    return Visitor(
        UserPrincipal(f"django:{user.pk}", f"django:{user.get_username()}", grants), session
    )


def grants_of(user: Any) -> Iterable[Grant]:
    """The result of `PENSTOCK["UI_GRANTS"]`, otherwise the permissions of a staff member."""
    path = penstock_settings().ui_grants
    if path is not None:
        found: Iterable[Grant] = import_string(path)(user)
        return found
    if not user.is_staff:
        return ()
    return [Grant(scope) for name, scope in _PERMISSIONS if user.has_perm(name)][:1]


current_visitor: Final[ContextVar[Visitor | None]] = ContextVar("penstock_visitor", default=None)
"""The visitor of the current request."""


class DjangoAuthenticator(Authenticator):
    """Sessions are those of Django. The view has checked them. There are no API keys."""

    async def session(self, cookie: str | None, proxied: User | None = None) -> Principal | None:
        visitor = current_visitor.get()
        return None if visitor is None else visitor.principal

    async def csrf_token(self, cookie: str) -> str:
        visitor = current_visitor.get()
        session = "" if visitor is None else f"{visitor.principal.key_id} {visitor.session}"
        return tokens.sign(await self._signing_secret(), "csrf", session).hex()
