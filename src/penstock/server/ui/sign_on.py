"""Both ends of a sign-in at the identity provider: `/login/sso` and `/login/callback`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.server.auth.sign_on import FLOW_SECONDS, Flow
from penstock.server.auth.users import SignInError
from penstock.server.transport.problems import HttpError
from penstock.server.ui.sessions import context_of, signed_in
from penstock.server.ui.templates import render
from penstock.server.ui.visits import HEADERS

if TYPE_CHECKING:
    from penstock.server.auth.openid_connect import OpenIdConnect

COOKIE: Final = "penstock_sign_on"


def _sign_on(request: Request) -> OpenIdConnect:
    found = context_of(request).sign_on
    if found is None:
        raise HttpError(404, "NotFound", "single sign-on is not set up on this server")
    return found


async def start(request: Request, target: str) -> Response:
    """Redirect to the identity provider. The browser keeps what the answer must match."""
    flow, address = await _sign_on(request).start(target)
    context = context_of(request)
    response = RedirectResponse(address, 303)
    response.set_cookie(
        COOKIE,
        await context.auth.sign("sso", json.dumps(flow), FLOW_SECONDS),
        max_age=FLOW_SECONDS,
        httponly=True,
        # The answer comes from the site of the provider, so browsers would not send a strict
        # cookie.
        samesite="lax",
        secure=context.settings.cookies_are_secure,
    )
    return response


async def finish(request: Request) -> Response:
    """A session for the user whom the identity provider returned."""
    sign_on, context = _sign_on(request), context_of(request)
    kept = await context.auth.read_token("sso", request.cookies.get(COOKIE, ""))
    if kept is None:
        raise SignInError("The sign-in took too long, or was started in another browser.")
    flow = Flow(*json.loads(kept.subject))
    user = await sign_on.finish(flow, request.query_params)
    # A page, not a redirect: browsers leave out the strict cookie of a session as long as they
    # follow redirects from another site.
    html = render("signed_in.html", address=context.settings.public_url + flow.target)
    page = Response(html, 200, HEADERS, "text/html; charset=utf-8")
    response = await signed_in(request, user, flow.target, page)
    response.delete_cookie(COOKIE)
    return response
