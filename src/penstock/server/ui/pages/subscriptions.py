"""Subscriptions: queues whose messages are sent to HTTP endpoints."""

from __future__ import annotations

from typing import Any, Final

from penstock.commands import read
from penstock.commands.write.subscriptions import (
    create_subscription,
    drop_subscription,
    set_subscription,
)
from penstock.errors import ConfigurationError, InvalidValueError
from penstock.model.subscription import Subscription
from penstock.push.http_sender import check_url
from penstock.push.signing import new_signing_secret, sealed_secret
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
CONCURRENCY: Final = 10
TIMEOUT_SECONDS: Final = 15


@pages("/subscriptions")
async def subscriptions(visit: Visit) -> View:
    found = await visit.run(read.subscriptions())
    rows = [_row(each) for each in found if visit.may("read", each.queue)]
    return View("subscriptions.html", "Subscriptions", {"subscriptions": rows})


def _row(found: Subscription) -> dict[str, Any]:
    names = [name for name in Subscription.__slots__ if name != "secret"]
    return {name: getattr(found, name) for name in names}


class CreateSubscription(Act):
    path = "/subscriptions/create"

    async def ask(self, visit: Visit) -> Question:
        queue = visit.asked("queue") or ""
        if queue:
            visit.principal.require("operate", queue)
        return Question(
            title="Create a subscription",
            button="Create",
            back="/subscriptions",
            text=[
                "Servers send the messages of the queue to the URL, and ack them on a 2xx.",
                "The signing secret is shown once, on the next page.",
            ],
            fields=[
                Field(name="name", label="Name", value=visit.asked("name") or "", required=True),
                Field(name="queue", label="Queue", value=queue, required=True),
                Field(name="url", label="URL", value=visit.asked("url") or "", required=True,
                      hint="https://example.com/hook"),
                *_limits(visit, CONCURRENCY, TIMEOUT_SECONDS),
            ],
        )  # fmt: skip

    async def do(self, visit: Visit) -> Deed:
        name, queue = visit.asked("name") or "", visit.asked("queue") or ""
        visit.principal.require("operate", queue)
        url = check_url(visit.asked("url") or "", visit.context.settings.push_networks)
        secret = new_signing_secret()
        settings = _asked_limits(visit, CONCURRENCY, TIMEOUT_SECONDS)
        settings["secret"] = _sealed(visit, secret)
        by = visit.principal.name
        return Deed(
            command=create_subscription(name, queue, url, settings, created_by=by),
            act="create subscription",
            target=name,
            to="/subscriptions",
            details={"queue": queue},
            shows=_secret_page(name, "Created", secret),
        )


class ChangeSubscription(Act):
    path = "/subscriptions/{subscription}/change"

    async def ask(self, visit: Visit) -> Question:
        found = await _covered(visit)
        url = visit.asked("url") or found.url
        return Question(
            title=f"Change subscription {found.name}",
            button="Change",
            back="/subscriptions",
            text=["Requests that are under way end as before."],
            facts={"Queue": found.queue},
            fields=[
                Field(name="url", label="URL", value=url, required=True),
                *_limits(visit, found.concurrency, found.timeout_seconds),
            ],
        )

    async def do(self, visit: Visit) -> Deed:
        found = await _covered(visit)
        settings = _asked_limits(visit, found.concurrency, found.timeout_seconds)
        networks = visit.context.settings.push_networks
        settings["url"] = check_url(visit.asked("url") or found.url, networks)
        return Deed(
            command=set_subscription(found.name, settings),
            act="set subscription",
            target=found.name,
            to="/subscriptions",
            details={"queue": found.queue},
        )


class ReplaceSecret(Act):
    path = "/subscriptions/{subscription}/replace-secret"

    async def ask(self, visit: Visit) -> Question:
        found = await _covered(visit)
        return Question(
            title=f"Replace the signing secret of {found.name}",
            button="Replace",
            back="/subscriptions",
            text=[
                "The new secret is shown once, on the next page.",
                "Requests are signed with the new and with the present secret, until the secret is"
                " replaced again.",
            ],
            facts={"Queue": found.queue, "URL": found.url},
        )

    async def do(self, visit: Visit) -> Deed:
        found = await _covered(visit)
        secret = new_signing_secret()
        sealed = _sealed(visit, secret, found.secret)
        return Deed(
            command=set_subscription(found.name, {"secret": sealed}),
            act="replace signing secret",
            target=found.name,
            to="/subscriptions",
            details={"queue": found.queue},
            shows=_secret_page(found.name, "Replaced the signing secret of", secret),
        )


def _limits(visit: Visit, concurrency: int, timeout_seconds: int) -> list[Field]:
    return [
        Field(name="concurrency", label="Requests at once", kind="number",
              value=visit.asked("concurrency") or str(concurrency), hint="1 to 1000"),
        Field(name="timeout_seconds", label="Timeout in seconds", kind="number",
              value=visit.asked("timeout_seconds") or str(timeout_seconds), hint="1 to 300"),
    ]  # fmt: skip


def _asked_limits(visit: Visit, concurrency: int, timeout_seconds: int) -> dict[str, Any]:
    return {
        "concurrency": visit.asked_whole("concurrency", concurrency, 1, 1000),
        "timeout_seconds": visit.asked_whole("timeout_seconds", timeout_seconds, 1, 300),
    }


def _sealed(visit: Visit, secret: str, old: str | None = None) -> str:
    try:
        return sealed_secret(visit.context.settings.addresses.box, secret, old)
    except ConfigurationError as error:
        raise InvalidValueError(error.message, hint=error.hint, field="secret") from None


def _secret_page(name: str, what: str, secret: str) -> View:
    title = f"{what} subscription {name}"
    return View("signing_secret.html", title, {"heading": title, "secret": secret})


async def _covered(visit: Visit) -> Subscription:
    name = visit.path["subscription"]
    found = await visit.run(read.subscription(name))
    visit.principal.require_of(f"subscription {name!r}", "operate", found.queue)
    return found


class _OnSubscription(Act):
    verb: str
    text: str
    danger = False

    async def ask(self, visit: Visit) -> Question:
        found = await _covered(visit)
        return Question(
            title=f"{self.verb.capitalize()} subscription {found.name}",
            button=self.verb.capitalize(),
            back="/subscriptions",
            text=[self.text],
            facts={"Queue": found.queue, "URL": found.url},
            danger=self.danger,
        )

    async def do(self, visit: Visit) -> Deed:
        found = await _covered(visit)
        if self.verb == "drop":
            command = drop_subscription(found.name)
        else:
            command = set_subscription(found.name, {"enabled": self.verb == "resume"})
        return Deed(
            command=command,
            act=f"{self.verb} subscription",
            target=found.name,
            to="/subscriptions",
            details={"queue": found.queue},
        )


class PauseSubscription(_OnSubscription):
    path = "/subscriptions/{subscription}/pause"
    verb = "pause"
    text = "No message is sent until it is resumed. The messages stay in the queue."


class ResumeSubscription(_OnSubscription):
    path = "/subscriptions/{subscription}/resume"
    verb = "resume"
    text = "Servers send the messages of the queue again."


class DropSubscription(_OnSubscription):
    path = "/subscriptions/{subscription}/drop"
    verb = "drop"
    text = "The messages of the queue stay. Its signing secret is deleted."
    danger = True


ACTS: Final = (
    CreateSubscription(),
    ChangeSubscription(),
    ReplaceSecret(),
    PauseSubscription(),
    ResumeSubscription(),
    DropSubscription(),
)
