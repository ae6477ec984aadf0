"""Sign-in by OpenID Connect, against a real provider, and by the header of a trusted proxy."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import flask
import httpx
import jwt
import oidc_provider_mock
import pytest
import werkzeug.serving
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.nginx import free_port

from penstock.errors import ConfigurationError
from penstock.model.access import parse_roles
from penstock.server.proxies import parse_networks
from penstock.server.settings import ServerSettings

# The provider uses parts of Authlib that are deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning")
MakeKey = Callable[..., str]
ROLES = parse_roles("ops=operate; shop=operate:orders-*,read:emails; boss=admin")
USERS = {
    "ada": {"email": "ada@example.com", "groups": ["ops", "unknown"]},
    "bob": {"email": "bob@example.com", "groups": ["shop"]},
    "eve": {"email": "eve@example.com", "groups": ["guests"]},
    "max": {"email": "max@example.com", "email_verified": False, "groups": ["boss"]},
}


@dataclass
class Provider:
    """oidc-provider-mock on a socket. `tamper` changes the ID tokens that it issues."""

    url: str
    forms: list[dict[str, str]] = field(default_factory=list)
    tamper: Callable[[str], Any] | None = None


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Provider, Any]]:
    users = [oidc_provider_mock.User(sub=name, claims=claims) for name, claims in USERS.items()]
    app = oidc_provider_mock.app(user_claims=users, require_nonce=True)
    server = werkzeug.serving.make_server("localhost", 0, app, threaded=True)
    provider = Provider(f"http://localhost:{server.port}")

    @app.after_request
    def look(response: flask.Response) -> flask.Response:
        if flask.request.path == "/oauth2/token":
            provider.forms.append(flask.request.form.to_dict())
            if provider.tamper is not None and response.status_code == 200:
                found = response.get_json()
                found["id_token"] = provider.tamper(found["id_token"])
                response.set_data(flask.json.dumps(found))
        return response

    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield provider, app
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def provider(served: tuple[Provider, Any]) -> Provider:
    served[0].tamper = None
    served[0].forms.clear()
    return served[0]


@pytest.fixture
def site(start_server: Any, provider: Provider) -> Any:
    port = free_port()
    return start_server(
        port=port,
        public_url=f"http://127.0.0.1:{port}",
        sso_issuer=provider.url,
        sso_client_id="penstock",
        sso_client_secret="secret:1",
        sso_roles=ROLES,
    )


@pytest.fixture
def browser(site: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url, timeout=60) as client:
        yield client


def begin(browser: httpx.Client, path: str = "/login/sso?next=/queues") -> str:
    """The address at the provider that the browser is sent to."""
    sent = browser.get(path)
    assert sent.status_code == 303, sent.text
    return str(sent.headers["location"])


def agree(address: str, user: str) -> str:
    """The user signs in at the provider, which sends the browser back."""
    back = httpx.post(address, data={"sub": user})
    assert back.status_code == 302, back.text
    return str(back.headers["location"])


def sign_in(browser: httpx.Client, user: str) -> httpx.Response:
    return browser.get(agree(begin(browser), user))


def create_queue(browser: httpx.Client, name: str) -> httpx.Response:
    form = browser.get("/queues/create").text
    token = re.findall(r'name="csrf" value="(\w+)"', form)[0]
    return browser.post("/queues/create", data={"csrf": token, "queue": name})


def test_a_user_signs_in_acts_under_the_own_name_and_signs_out(
    browser: httpx.Client, site: Any, provider: Provider, db: Any
) -> None:
    assert "/login/sso?next=%2Fqueues" in browser.get("/login?next=/queues").text
    address = begin(browser)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    entered = browser.get(agree(address, "ada"))
    assert entered.status_code == 200
    assert f'content="0; url={site.url}/queues"' in entered.text
    # The provider does not check PKCE: what it got must be what was promised.
    digest = hashlib.sha256(provider.forms[0]["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
    assert create_queue(browser, "emails").status_code == 303
    row = db.execute("select actor, act, target from penstock.activity").fetchall()
    assert row == [("sso:ada@example.com", "create queue", "emails")]
    assert "sso:ada@example.com" in browser.get("/activity").text
    cookie = browser.cookies["penstock_session"]
    assert browser.post("/logout").status_code == 303
    again = httpx.get(f"{site.url}/queues", headers={"Cookie": f"penstock_session={cookie}"})
    assert again.status_code == 303


def test_roles_decide_the_queues_of_a_user(
    browser: httpx.Client, site: Any, make_key: MakeKey
) -> None:
    key = {"Authorization": f"Bearer {make_key('admin', 'admin')}"}
    for name in ("orders-1", "emails", "secrets"):
        browser.post("/api/topic-configs", json={"topic": name}, headers=key)
    assert sign_in(browser, "bob").status_code == 200
    site.server.context.snapshots.forget()
    page = browser.get("/queues").text
    assert "orders-1" in page
    assert "emails" in page
    assert "secrets" not in page
    assert browser.get("/queues/orders-1/pause").status_code == 200
    refused = browser.get("/queues/emails/pause")
    assert refused.status_code == 403
    assert "sso:bob@example.com" in refused.text
    assert browser.get("/system").status_code == 403
    # A session is for pages: the API takes keys.
    assert browser.get("/api/stats").status_code == 401


@pytest.mark.parametrize(
    ("user", "reason"),
    [("eve", "eve@example.com has no role"), ("max", "not verified your e-mail")],
)
def test_a_user_without_a_role_or_a_verified_address_is_told_so(
    browser: httpx.Client, user: str, reason: str
) -> None:
    refused = sign_in(browser, user)
    assert (refused.status_code, reason in refused.text) == (403, True)
    assert "penstock_session" not in browser.cookies


def test_an_answer_for_another_sign_in_or_browser_is_refused(
    browser: httpx.Client, site: Any
) -> None:
    callback = agree(begin(browser), "ada")
    with httpx.Client(base_url=site.url, timeout=60) as other:
        assert "another browser" in other.get(callback).text
        begin(other)
        refused = other.get(callback)
        assert (refused.status_code, "another sign-in" in refused.text) == (403, True)
        assert "penstock_session" not in other.cookies
    assert browser.get(re.sub(r"code=[^&]*", "code=guessed", callback)).status_code == 403
    assert browser.get(callback).status_code == 200
    # A code is worth nothing the second time.
    assert browser.get(callback).status_code == 403
    denied = browser.get("/login/callback?error=access_denied&state=x")
    assert denied.status_code == 403


def test_only_a_path_of_this_server_is_a_target(browser: httpx.Client) -> None:
    for target in ("https://example.com", "//example.com", "/\\example.com"):
        address = begin(browser, f"/login/sso?next={target}")
        assert "example.com/" not in browser.get(agree(address, "bob")).text


def forged(**changes: Any) -> Callable[[str], str]:
    """The claims of a token with changes, signed by a key that the provider does not have."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def forge(token: str) -> str:
        claims = jwt.decode(token, options={"verify_signature": False}) | changes
        return jwt.encode(claims, key, "RS256")

    return forge


def unsigned(token: str) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, None, "none")


def by_secret(token: str) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, "secret:1" * 8, "HS256")


@pytest.mark.parametrize(
    "tamper", [forged(), forged(groups=["boss"]), unsigned, by_secret, lambda token: None]
)
def test_a_token_that_the_provider_did_not_sign_is_refused(
    browser: httpx.Client, provider: Provider, tamper: Any
) -> None:
    provider.tamper = tamper
    refused = sign_in(browser, "ada")
    assert (refused.status_code, "ID token" in refused.text) == (403, True)
    assert "penstock_session" not in browser.cookies


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"aud": "somebody-else"}, "not valid"),
        ({"iss": "https://example.com"}, "not valid"),
        ({"exp": int(time.time()) - 3600}, "not valid"),
        ({"nonce": "another"}, "another sign-in"),
        ({"azp": "somebody-else"}, "another client"),
        ({"sub": None}, "not valid"),
    ],
)
def test_a_signed_token_with_a_wrong_claim_is_refused(
    browser: httpx.Client,
    provider: Provider,
    served: tuple[Provider, Any],
    changes: dict[str, Any],
    reason: str,
) -> None:
    def resign(token: str) -> str:
        claims = jwt.decode(token, options={"verify_signature": False}) | changes
        key = flask.g.oidc_provider_mock_storage.jwk.as_dict(is_private=True)
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(kept, jwt.PyJWK(key, "RS256").key, "RS256")

    provider.tamper = resign
    refused = sign_in(browser, "ada")
    assert (refused.status_code, reason in refused.text) == (403, True), refused.text


def test_a_provider_that_does_not_answer_is_named_and_keys_still_work(
    start_server: Any, make_key: MakeKey
) -> None:
    away = f"http://localhost:{free_port()}"
    site = start_server(
        public_url="http://127.0.0.1:1", sso_issuer=away, sso_client_id="x", sso_roles=ROLES
    )
    with httpx.Client(base_url=site.url, timeout=60) as browser:
        refused = browser.get("/login/sso")
        assert (refused.status_code, "does not answer" in refused.text) == (503, True)
        assert browser.post("/login", data={"key": make_key("ada", "read")}).status_code == 303


def test_without_the_setting_there_is_no_single_sign_on(shared: httpx.Client) -> None:
    assert shared.get("/login/sso").status_code == 404
    assert shared.get("/login/callback").status_code == 404
    assert "/login/sso" not in shared.get("/login").text


HEADERS = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "guests, ops"}
BY_HEADER = {
    "sso_user_header": "X-Forwarded-User",
    "sso_roles_header": "X-Forwarded-Groups",
    "sso_roles": ROLES,
}


def test_a_trusted_proxy_names_the_user(start_server: Any, db: Any) -> None:
    site = start_server(trusted_proxies=parse_networks("127.0.0.1"), **BY_HEADER)
    with httpx.Client(base_url=site.url, timeout=60, headers=HEADERS) as browser:
        assert "Continue as ada" in browser.get("/login").text
        assert browser.post("/login", data={"proxied": "yes"}).status_code == 303
        assert create_queue(browser, "emails").status_code == 303
        assert db.execute("select actor from penstock.activity").fetchone() == ("proxy:ada",)
        # The roles and the user are those of each request.
        assert browser.get("/queues", headers={"X-Forwarded-User": "eve"}).status_code == 303
        assert browser.get("/queues", headers={"X-Forwarded-Groups": "guests"}).status_code == 303
        assert browser.get("/queues").status_code == 200
        cookie = browser.cookies["penstock_session"]
        assert browser.post("/logout").status_code == 303
        kept = {"Cookie": f"penstock_session={cookie}"}
        assert browser.get("/queues", headers=kept).status_code == 303
    session = {"Cookie": f"penstock_session={cookie}"}
    assert httpx.get(f"{site.url}/queues", headers=session).status_code == 303


def test_a_header_from_anybody_else_or_twice_is_ignored(start_server: Any) -> None:
    far = start_server(trusted_proxies=parse_networks("192.0.2.1"), **BY_HEADER)
    with httpx.Client(base_url=far.url, timeout=60, headers=HEADERS) as browser:
        assert "Continue as" not in browser.get("/login").text
        assert browser.post("/login", data={"proxied": "yes"}).status_code == 401
        assert browser.get("/queues").status_code == 303
    near = start_server(trusted_proxies=parse_networks("127.0.0.1"), **BY_HEADER)
    twice = [("X-Forwarded-User", "root"), *HEADERS.items()]
    assert "Continue as" not in httpx.get(f"{near.url}/login", headers=twice).text
    more = [*HEADERS.items(), ("X-Forwarded-Groups", "boss")]
    assert "Continue as" not in httpx.get(f"{near.url}/login", headers=more).text


def test_the_settings_of_single_sign_on_are_checked() -> None:
    whole = {
        "PENSTOCK_SSO_ISSUER": "https://id.example.com",
        "PENSTOCK_SSO_CLIENT_ID": "penstock",
        "PENSTOCK_SSO_CLIENT_SECRET": "hidden",
        "PENSTOCK_SSO_ROLES": "ops=operate; *=read:public-*",
        "PENSTOCK_HTTP_PUBLIC_URL": "https://example.com",
    }
    found = ServerSettings.from_environment(whole)
    assert [str(each) for each in found.sso_roles["*"]] == ["read:public-*"]
    assert "hidden" not in repr(found)
    for name in whole:
        if name not in ("PENSTOCK_SSO_ISSUER", "PENSTOCK_SSO_CLIENT_SECRET"):
            rest = {key: value for key, value in whole.items() if key != name}
            with pytest.raises(ConfigurationError, match=name):
                ServerSettings.from_environment(rest)
    for name, value in (
        ("PENSTOCK_SSO_ROLES", "ops"),
        ("PENSTOCK_SSO_ROLES", "ops=rule"),
        ("PENSTOCK_SSO_ROLES", "ops=read; ops=admin"),
        ("PENSTOCK_SSO_ISSUER", "http://id.example.com"),
    ):
        with pytest.raises(ConfigurationError, match=name):
            ServerSettings.from_environment({**whole, name: value})
    with pytest.raises(ConfigurationError, match="PENSTOCK_TRUSTED_PROXIES"):
        ServerSettings.from_environment(
            {"PENSTOCK_SSO_USER_HEADER": "X-User", "PENSTOCK_SSO_ROLES": "ops=operate"}
        )
