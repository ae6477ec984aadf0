"""Subscriptions: topics whose messages are sent to HTTP endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.commands import read
from penstock.commands.command import Command
from penstock.commands.write import subscriptions as write
from penstock.errors import ConfigurationError, InvalidValueError
from penstock.model import subscription as model
from penstock.model.access import Scope
from penstock.push.http_sender import check_url
from penstock.push.signing import sealed_secret
from penstock.server import fields as f
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("subscriptions")
Url = Annotated[str, Meta(max_length=2048, description="an address with the scheme https or http")]
Secret = Annotated[
    str,
    Meta(
        max_length=200,
        description="whsec_ and the base64 of 24 to 64 bytes; without one, a secret is made",
    ),
]
Concurrency = Annotated[int, Meta(ge=1, le=1000, description="requests at once, for each server")]
TimeoutSeconds = Annotated[int, Meta(ge=1, le=300, description="how long a request may take")]


class SubscriptionOptions(Struct, forbid_unknown_fields=True, kw_only=True):
    secret: Secret | UnsetType = UNSET
    concurrency: Concurrency | UnsetType = UNSET
    timeout_seconds: TimeoutSeconds | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class CreateSubscription(SubscriptionOptions, forbid_unknown_fields=True, kw_only=True):
    """A subscription to create."""

    name: f.PlainName
    topic: f.Name
    url: Url


class ChangeSubscription(SubscriptionOptions, forbid_unknown_fields=True, kw_only=True):
    """The settings to change. A new secret signs in addition to the old one."""

    url: Url | UnsetType = UNSET


class Subscription(Struct, kw_only=True):
    """A subscription, with the counts of its deliveries."""

    name: str
    topic: str
    url: str
    concurrency: int
    timeout_seconds: int
    enabled: bool
    disabled_reason: str | None
    delivered: int
    failed: int
    last_delivered_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    created_at: datetime
    updated_at: datetime


class Subscriptions(Struct):
    items: list[Subscription]
    next: str | None = None


class SigningSecret(Struct):
    """What receivers verify requests with. The first signs, and an older one too."""

    secrets: list[str]


@endpoint("GET", "/api/subscriptions", answers={200: Subscriptions})
async def list_subscriptions(call: Call) -> Subscriptions:
    """The subscriptions of the topics that the key may read."""
    found = await call.run(read.subscriptions())
    return Subscriptions(
        [_document(each) for each in found if call.principal.may("read", each.queue)]
    )


@endpoint("POST", "/api/subscriptions", body=CreateSubscription, answers={201: Subscription},
          problems=(404, 409))  # fmt: skip
async def create_subscription(call: Call) -> Subscription:
    """Send the messages of a topic to a URL, signed by the Standard Webhooks scheme."""
    body: CreateSubscription = call.body
    call.require("operate", body.topic)
    url = check_url(body.url, call.context.settings.push_networks)
    options = _options(body)
    box = call.context.settings.addresses.box
    with _with_key():
        options["secret"] = sealed_secret(box, None if body.secret is UNSET else body.secret)
    command = write.create_subscription(
        body.name, body.topic, url, options, created_by=call.principal.name
    )
    return await _act(call, command, "create subscription", body.name)


@endpoint("GET", "/api/subscriptions/{subscription}", answers={200: Subscription},
          problems=(404,))  # fmt: skip
async def show_subscription(call: Call) -> Subscription:
    """One subscription."""
    return _document(await covered_subscription(call, "read"))


@endpoint("PATCH", "/api/subscriptions/{subscription}", body=ChangeSubscription,
          answers={200: Subscription}, problems=(404,))  # fmt: skip
async def change_subscription(call: Call) -> Subscription:
    """Change the given settings. `enabled` pauses or resumes the delivery."""
    body: ChangeSubscription = call.body
    found = await covered_subscription(call, "operate")
    options = _options(body)
    if body.url is not UNSET:
        options["url"] = check_url(body.url, call.context.settings.push_networks)
    if body.secret is not UNSET:
        box = call.context.settings.addresses.box
        with _with_key():
            options["secret"] = sealed_secret(box, body.secret, found.secret)
    return await _act(
        call, write.set_subscription(found.name, options), "set subscription", found.name
    )


@endpoint("DELETE", "/api/subscriptions/{subscription}", answers={200: Subscription},
          problems=(404,))  # fmt: skip
async def delete_subscription(call: Call) -> Subscription:
    """Remove a subscription. The messages of its topic stay."""
    found = await covered_subscription(call, "operate")
    await call.act(write.drop_subscription(found.name), "drop subscription", found.name,
                   queue=found.queue)  # fmt: skip
    return _document(found)


@endpoint("GET", "/api/subscriptions/{subscription}/secret", answers={200: SigningSecret},
          problems=(404,))  # fmt: skip
async def show_signing_secret(call: Call) -> SigningSecret:
    """The secrets that receivers verify requests with."""
    found = await covered_subscription(call, "operate")
    box = call.context.settings.addresses.box
    await call.note("show signing secret", found.name, queue=found.queue)
    with _with_key():
        return SigningSecret([] if found.secret is None else box.open(found.secret).split())


@contextmanager
def _with_key() -> Iterator[None]:
    """A server without a key cannot store or show secrets."""
    try:
        yield
    except ConfigurationError as error:
        raise InvalidValueError(error.message, hint=error.hint, field="secret") from None


async def covered_subscription(call: Call, scope: Scope) -> model.Subscription:
    """The subscription, if the key covers its queue."""
    name = call.path["subscription"]
    found = await call.run(read.subscription(name))
    call.require_of(f"subscription {name!r}", scope, found.queue)
    return found


async def _act(call: Call, command: Command[None], act: str, name: str) -> Subscription:
    await call.act(command, act, name)
    return _document(await call.run(read.subscription(name)))


def _options(body: SubscriptionOptions) -> dict[str, Any]:
    names = ("concurrency", "timeout_seconds", "enabled")
    return {name: value for name in names if (value := getattr(body, name)) is not UNSET}


def _document(found: model.Subscription) -> Subscription:
    names = [name for name in Subscription.__struct_fields__ if name != "topic"]
    return Subscription(topic=found.queue, **{name: getattr(found, name) for name in names})
