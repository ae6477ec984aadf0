"""The admin UI behind Django's own login."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Permission, User
from django.test import AsyncClient, Client, override_settings

from penstock import Client as Queue
from penstock.django.ui_server import servers
from penstock.model.access import Grant


@pytest.fixture(autouse=True)
def in_project(project: str) -> Iterator[None]:
    yield
    servers.close()


def browser(*permissions: str, **user: Any) -> Client:
    """A browser that is signed in as a user with these permissions."""
    made = User.objects.create_user("ada", is_staff=user.pop("is_staff", True), **user)
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(made)
    return client


def only_emails(user: Any) -> list[Grant]:
    return [Grant("read", "emails")]


def test_pages_have_links_below_the_prefix(queue: Queue) -> None:
    queue.enqueue("emails", {"text": '<a href="/elsewhere">'})
    client = browser(is_superuser=True)
    page = client.get("/queues/")
    assert page.status_code == 200
    links = re.findall(r'(?:href|src|action|hx-get)="(/[^"]*)"', page.content.decode())
    assert links
    assert [link for link in links if not link.startswith("/queues/")] == []
    forms = ("logout", "theme", "time-zone", "find")
    for link in {link for link in links if not link.endswith(forms)}:
        assert client.get(link).status_code == 200, link


def test_a_payload_is_not_rewritten(queue: Queue) -> None:
    id = queue.enqueue("emails", {"text": ' href="/elsewhere" '})
    page = browser(is_superuser=True).get(f"/queues/messages/{id}").content.decode()
    assert "/queues/elsewhere" not in page
    assert "/elsewhere" in page


def test_a_visitor_without_a_session_is_sent_to_the_login() -> None:
    answer = Client().get("/queues/messages?state=dead")
    assert answer.status_code == 302
    assert answer["Location"] == "/admin/login/?next=/queues/messages%3Fstate%3Ddead"
    part = Client().get("/queues/", headers={"hx-request": "true"})
    assert (part.status_code, part["HX-Redirect"]) == (401, "/admin/login/")


@pytest.mark.parametrize(
    ("user", "permissions"),
    [
        ({"is_staff": False}, ("read_queues", "administer_queues")),
        ({"is_staff": True}, ()),
    ],
)
def test_a_user_without_permission_is_refused(
    user: dict[str, Any], permissions: tuple[str, ...]
) -> None:
    assert browser(*permissions, **user).get("/queues/").status_code == 403


def post(client: Client, path: str, headers: Any = None, **fields: str) -> Any:
    """Send a form as a browser does."""
    kind = "application/x-www-form-urlencoded"
    return client.post(path, urlencode(fields), kind, headers=headers)


def token_of(page: Any) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', page.content.decode())
    assert found is not None, page.content.decode()
    return found[1]


def test_permissions_are_mapped_to_scopes(queue: Queue) -> None:
    reader = browser("read_queues")
    assert reader.get("/queues/queues/emails/").status_code == 200
    refused = reader.get("/queues/queues/emails/pause")
    assert refused.status_code == 403
    assert b"user &#39;django:ada&#39; lacks the &#39;operate&#39; scope" in refused.content
    assert reader.post("/queues/queues/emails/pause").status_code == 403
    assert not _is_paused(queue)


def _is_paused(queue: Queue) -> bool:
    return next(each for each in queue.queues() if each.name == "emails").settings.paused


def test_an_operator_acts_under_their_own_name(queue: Queue, project: str) -> None:
    client = browser("operate_queues")
    token = token_of(client.get("/queues/queues/emails/pause"))
    wrong = post(client, "/queues/queues/emails/pause", csrf="0" * 64)
    assert wrong.status_code == 403
    evil = {"origin": "https://evil.example"}
    foreign = post(client, "/queues/queues/emails/pause", evil, csrf=token)
    assert foreign.status_code == 403
    assert not _is_paused(queue)
    done = post(client, "/queues/queues/emails/pause", csrf=token)
    assert done.status_code == 303
    assert done["Location"].startswith("/queues/queues/emails/?done=")
    assert _is_paused(queue)
    assert b"django:ada" in client.get("/queues/activity").content
    assert client.post("/queues/system/end-session").status_code == 403


def test_the_token_of_another_session_is_refused(queue: Queue) -> None:
    client = browser("operate_queues")
    token = token_of(client.get("/queues/queues/emails/pause"))
    other = Client()
    other.force_login(User.objects.get())
    assert post(other, "/queues/queues/emails/pause", csrf=token).status_code == 403


@override_settings(PENSTOCK={"UI_GRANTS": "tests.django.test_ui.only_emails"})
def test_a_function_of_the_project_grants_queues(queue: Queue) -> None:
    client = browser(is_staff=False)
    assert client.get("/queues/queues/emails/").status_code == 200
    assert client.get("/queues/queues/orders/").status_code == 403


def test_api_keys_and_the_api_are_not_served(queue: Queue) -> None:
    client = browser(is_superuser=True)
    for path in ("api/stats", "metrics", "openapi.json", "docs", "managed-services"):
        assert client.get(f"/queues/{path}").status_code == 404, path
    bearer = {"authorization": "Bearer something"}
    assert client.get("/queues/overview.json", headers=bearer).status_code == 200
    assert Client().get("/queues/overview.json", headers=bearer).status_code == 302


def test_signing_out_ends_the_session_of_django() -> None:
    client = browser(is_superuser=True)
    foreign = client.post("/queues/logout", headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert client.post("/queues/logout").status_code == 302
    assert client.get("/queues/").status_code == 302


def test_the_theme_is_kept_in_a_cookie() -> None:
    client = browser(is_superuser=True)
    answer = post(client, "/queues/theme", theme="dark", next="/messages")
    assert (answer.status_code, answer["Location"]) == (303, "/queues/messages")
    assert b'data-theme="dark"' in client.get("/queues/").content


def test_pages_under_wsgi_do_not_ask_for_events() -> None:
    client = browser(is_superuser=True)
    assert b"data-events" not in client.get("/queues/").content
    assert client.get("/queues/live").status_code == 204


async def test_pages_under_asgi_follow_the_events() -> None:
    made = await User.objects.acreate_user("ada", is_staff=True, is_superuser=True)
    client = AsyncClient()
    await client.aforce_login(made)
    page = await client.get("/queues/")
    assert b'data-events="/queues/live"' in page.content
    events: Any = await client.get("/queues/live")
    assert (events.status_code, events["Content-Type"]) == (200, "text/event-stream")
    parts = aiter(events)
    async with asyncio.timeout(60):
        while b"event: tick" not in await anext(parts):
            pass
    await parts.aclose()
