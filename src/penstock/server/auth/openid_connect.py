"""Sign-in by OpenID Connect: the authorization code flow with PKCE, a state and a nonce.

PyJWT verifies the ID token against the keys of the provider. It comes with `penstock[sso]`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import jwt

from penstock.server.auth.sign_on import CALLBACK, Flow
from penstock.server.auth.users import SignInError, User, make_user
from penstock.server.settings import ServerSettings, is_safe_address

_METADATA_SECONDS: Final = 3600.0
_TIMEOUT_SECONDS: Final = 10.0
_LEEWAY_SECONDS: Final = 60
# Some providers send the value as a word.
_UNVERIFIED: Final = (False, "false")
# Signatures by the provider's private key. With HMAC or none, an attacker could create a token.
_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)


class OpenIdConnect:
    """The identity provider of this server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._http = httpx.AsyncClient(timeout=_TIMEOUT_SECONDS)
        self._metadata: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}
        self._loaded_at = -1e9

    async def close(self) -> None:
        await self._http.aclose()

    async def start(self, target: str) -> tuple[Flow, str]:
        """A new sign-in, and the address of the provider to send the browser to."""
        metadata = await self._load()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        flow = Flow(state, nonce, verifier, target)
        challenge = hashlib.sha256(flow.verifier.encode("ascii")).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.sso_client_id,
            "redirect_uri": self._callback,
            "scope": self._settings.sso_scopes,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode("ascii").rstrip("="),
            "code_challenge_method": "S256",
        }
        address = _endpoint(metadata, "authorization_endpoint")
        return flow, f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    async def finish(self, flow: Flow, query: Mapping[str, str]) -> User:
        """The user whom the provider has sent back. SignInError or UnknownUserError if none."""
        if not hmac.compare_digest(query.get("state", "").encode(), flow.state.encode()):
            raise SignInError("The answer of the identity provider belongs to another sign-in.")
        if "error" in query:
            text = query.get("error_description") or query["error"]
            raise SignInError(f"The identity provider refused: {text:.200}")
        tokens = await self._redeem(query.get("code", ""), flow)
        claims = await self._verified(tokens.get("id_token"), flow.nonce)
        if _claim(claims, self._settings.sso_roles_claim) is None:
            claims = {**await self._user_info(tokens, claims), **claims}
        return self._user(claims)

    @property
    def _callback(self) -> str:
        return self._settings.public_url + CALLBACK

    async def _redeem(self, code: str, flow: Flow) -> dict[str, Any]:
        metadata, settings = await self._load(), self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "code_verifier": flow.verifier,
        }
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        credentials: Any = httpx.USE_CLIENT_DEFAULT
        if settings.sso_client_secret and "client_secret_basic" in methods:
            credentials = httpx.BasicAuth(settings.sso_client_id, settings.sso_client_secret)
        else:
            form["client_id"] = settings.sso_client_id
            if settings.sso_client_secret:
                form["client_secret"] = settings.sso_client_secret
        address = _endpoint(metadata, "token_endpoint")
        return await self._json("POST", address, data=form, auth=credentials)

    async def _verified(self, token: Any, nonce: str) -> dict[str, Any]:
        if not isinstance(token, str):
            raise SignInError("The identity provider sent no ID token.")
        try:
            head = jwt.get_unverified_header(token)
            key = await self._key(head)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=self._settings.sso_client_id,
                issuer=self._settings.sso_issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise SignInError(f"The ID token is not valid: {error}.") from None
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise SignInError("The ID token belongs to another sign-in.")
        if claims.get("azp", self._settings.sso_client_id) != self._settings.sso_client_id:
            raise SignInError("The ID token was issued to another client.")
        return claims

    async def _key(self, head: Mapping[str, Any]) -> jwt.PyJWK:
        """The key of the provider that the token names. New keys are fetched once."""
        algorithm = head.get("alg")
        if algorithm not in _ALGORITHMS:
            raise SignInError(f"The ID token is signed by {algorithm!r:.20}, which is not allowed.")
        for again in (False, True):
            await self._load(again=again)
            known = [key for key in self._keys.get("keys", []) if key.get("use", "sig") == "sig"]
            if "kid" in head:
                known = [key for key in known if key.get("kid") == head["kid"]]
            if len(known) == 1:
                return jwt.PyJWK(known[0], algorithm)
        raise SignInError("The ID token is signed by an unknown key.")

    async def _user_info(self, tokens: Mapping[str, Any], claims: Mapping[str, Any]) -> Any:
        """More claims of the user. Some providers put groups there instead of in the ID token."""
        metadata = await self._load()
        if "userinfo_endpoint" not in metadata or "access_token" not in tokens:
            return {}
        headers = {"Authorization": f"Bearer {tokens['access_token']}"}
        found = await self._json("GET", _endpoint(metadata, "userinfo_endpoint"), headers=headers)
        return found if found.get("sub") == claims["sub"] else {}

    def _user(self, claims: Mapping[str, Any]) -> User:
        settings = self._settings
        if settings.sso_user_claim == "email" and claims.get("email_verified") in _UNVERIFIED:
            raise SignInError("The identity provider has not verified your e-mail address.")
        roles = _claim(claims, settings.sso_roles_claim)
        if isinstance(roles, str):
            roles = roles.replace(",", " ").split()
        held = [role for role in roles if isinstance(role, str)] if roles else []
        name = _claim(claims, settings.sso_user_claim)
        return make_user("sso", name, held, settings.sso_roles)

    async def _load(self, *, again: bool = False) -> dict[str, Any]:
        """The metadata of the provider, and its keys."""
        age = time.monotonic() - self._loaded_at
        if age < (1.0 if again else _METADATA_SECONDS):
            return self._metadata
        issuer = self._settings.sso_issuer
        address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = await self._json("GET", address)
        if metadata.get("issuer") != issuer:
            raise SignInError(
                f"The identity provider calls itself {metadata.get('issuer')!r:.200}."
            )
        self._keys = await self._json("GET", _endpoint(metadata, "jwks_uri"))
        self._metadata, self._loaded_at = metadata, time.monotonic()
        return metadata

    async def _json(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        try:
            answer = await self._http.request(method, address, **more)
            answer.raise_for_status()
            found = answer.json()
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise SignInError(f"The identity provider answered with status {status}.") from None
        except (httpx.HTTPError, ValueError):
            raise SignInError("The identity provider does not answer. Try again later.") from None
        if not isinstance(found, dict):
            raise SignInError("The identity provider sent an answer that cannot be read.")
        return found


def _endpoint(metadata: Mapping[str, Any], name: str) -> str:
    address = metadata.get(name)
    if not isinstance(address, str) or not is_safe_address(address):
        raise SignInError(f"The identity provider names no {name} with https.")
    return address


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or by a path such as `realm_access.roles`."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
