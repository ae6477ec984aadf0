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
from penstock.push.signing import sealed_secret
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()


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
            text=["Servers send the messages of the queue to the URL, and ack them on a 2xx."],
            fields=[
                Field(name="name", label="Name", value=visit.asked("name") or "", required=True),
                Field(name="queue", label="Queue", value=queue, required=True),
                Field(name="url", label="URL", value=visit.asked("url") or "", required=True,
                      hint="https://example.com/hook"),
                Field(name="concurrency", label="Requests at once", kind="number",
                      value=visit.asked("concurrency") or "10", hint="1 to 1000"),
                Field(name="timeout_seconds", label="Timeout in seconds", kind="number",
                      value=visit.asked("timeout_seconds") or "15", hint="1 to 300"),
            ],
        )  # fmt: skip

    async def do(self, visit: Visit) -> Deed:
        name, queue = visit.asked("name") or "", visit.asked("queue") or ""
        visit.principal.require("operate", queue)
        url = check_url(visit.asked("url") or "", visit.context.settings.push_networks)
        settings: dict[str, Any] = {
            "concurrency": visit.asked_whole("concurrency", 10, 1, 1000),
            "timeout_seconds": visit.asked_whole("timeout_seconds", 15, 1, 300),
        }
        try:
            settings["secret"] = sealed_secret(visit.context.settings.addresses.box, None)
        except ConfigurationError as error:
            raise InvalidValueError(error.message, hint=error.hint, field="secret") from None
        by = visit.principal.name
        return Deed(
            command=create_subscription(name, queue, url, settings, created_by=by),
            act="create subscription",
            target=name,
            to="/subscriptions",
            details={"queue": queue},
        )


class _OnSubscription(Act):
    verb: str
    text: str
    danger = False

    async def ask(self, visit: Visit) -> Question:
        found = await self._covered(visit)
        return Question(
            title=f"{self.verb.capitalize()} subscription {found.name}",
            button=self.verb.capitalize(),
            back="/subscriptions",
            text=[self.text],
            facts={"Queue": found.queue, "URL": found.url},
            danger=self.danger,
        )

    async def do(self, visit: Visit) -> Deed:
        found = await self._covered(visit)
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

    async def _covered(self, visit: Visit) -> Subscription:
        name = visit.path["subscription"]
        found = await visit.run(read.subscription(name))
        visit.principal.require_of(f"subscription {name!r}", "operate", found.queue)
        return found


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
    PauseSubscription(),
    ResumeSubscription(),
    DropSubscription(),
)
