"""Sign-in without a key: the configured providers, and the user of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.errors import ConfigurationError
from penstock.server.auth.users import UnknownUserError, User, make_user
from penstock.server.proxies import is_trusted_peer
from penstock.server.settings import ServerSettings

if TYPE_CHECKING:
    from penstock.server.auth.openid_connect import OpenIdConnect


CALLBACK: Final = "/login/callback"
FLOW_SECONDS: Final = 600


class Flow(NamedTuple):
    """One sign-in in progress. The browser keeps it in a signed cookie."""

    state: str
    nonce: str
    verifier: str
    target: str


def make_openid_connect(settings: ServerSettings) -> OpenIdConnect | None:
    """The identity provider, or None if there is none."""
    if not settings.sso_issuer:
        return None
    try:
        # Imported here, because the libraries come with an extra.
        from penstock.server.auth.openid_connect import OpenIdConnect
    except ImportError:
        raise ConfigurationError(
            "PENSTOCK_SSO_ISSUER is set, and the libraries for OpenID Connect are missing",
            hint="Install them: `pip install penstock[sso]`.",
        ) from None
    return OpenIdConnect(settings)


def proxied_user(
    scope: Any, headers: Mapping[bytes, bytes], settings: ServerSettings
) -> User | None:
    """The user whom a trusted proxy names. The headers of any other caller are ignored."""
    name = settings.sso_user_header.lower().encode("ascii")
    if not name or not is_trusted_peer(scope, settings.trusted_proxies):
        return None
    roles_name = settings.sso_roles_header.lower().encode("ascii")
    sent = [key for key, _ in scope["headers"]]
    if sent.count(name) != 1 or sent.count(roles_name) > 1:
        # A proxy that adds a header to the one of its caller would let the caller choose.
        return None
    listed = headers.get(roles_name, b"")
    roles = [role.strip() for role in listed.decode("latin-1").split(",")]
    try:
        user = headers[name].decode("utf-8")
        return make_user("proxy", user, roles, settings.sso_roles)
    except (UnknownUserError, UnicodeDecodeError):
        return None
