"""`penstock push`: send the messages of queues to HTTP endpoints."""

from __future__ import annotations

import asyncio
import getpass
import signal
from typing import Any

import click

from penstock.cli.command_classes import Verbs
from penstock.cli.screen import Screen
from penstock.cli.session import Session, pass_session, yes_option
from penstock.commands import read
from penstock.commands.write.keys import record_activity
from penstock.commands.write.subscriptions import (
    create_subscription,
    drop_subscription,
    set_subscription,
)
from penstock.model.subscription import Subscription


@click.group(cls=Verbs)
def push() -> None:
    """Send the messages of queues to HTTP endpoints."""


def _options(command: Any) -> Any:
    options = [
        click.option("--concurrency", type=click.IntRange(1, 1000), help="Send this many at once."),
        click.option(
            "--timeout", "timeout_seconds", type=click.IntRange(1, 300), metavar="SECONDS",
            help="End a request after this time.",
        ),
        click.option(
            "--secret-env", metavar="VARIABLE",
            help="Sign with the secret in this variable. Default: a new secret.",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@push.command()
@click.argument("name")
@click.argument("queue")
@click.argument("url")
@_options
@pass_session
def create(
    session: Session, /, name: str, queue: str, url: str, secret_env: str | None, **given: Any
) -> None:
    """Send the messages of QUEUE to URL, as subscription NAME.

    Requests are signed by the Standard Webhooks scheme. `penstock push secret NAME` prints the
    secret that receivers verify them with.
    """
    from penstock.push.http_sender import check_url
    from penstock.push.networks import AllowedNetworks

    check_url(url, AllowedNetworks.from_environment())
    settings = {key: value for key, value in given.items() if value is not None}
    settings["secret"] = _sealed(secret_env, None)
    by = getpass.getuser()
    session.run(create_subscription(name, queue, url, settings, created_by=by))
    session.run(record_activity(by, "create subscription", name))
    text = f"messages of queue {queue} are sent to {url}, as subscription {name}"
    session.show({"name": name, "queue": queue, "url": url}, text)


@push.command("set")
@click.argument("name")
@click.option("--url", help="Send the messages to this URL.")
@_options
@pass_session
def set_(
    session: Session, /, name: str, url: str | None, secret_env: str | None, **given: Any
) -> None:
    """Change settings of subscription NAME.

    If the secret changes, requests are signed with the new one and the previous one.
    """
    from penstock.push.http_sender import check_url
    from penstock.push.networks import AllowedNetworks

    found = session.run(read.subscription(name))
    settings = {key: value for key, value in given.items() if value is not None}
    if url is not None:
        settings["url"] = check_url(url, AllowedNetworks.from_environment())
    if secret_env is not None:
        settings["secret"] = _sealed(secret_env, found.secret)
    _change(session, name, "set subscription", settings, f"subscription {name} is changed")


@push.command()
@click.argument("name")
@pass_session
def pause(session: Session, name: str) -> None:
    """Stop sending the messages of subscription NAME. They stay in the queue."""
    text = f"subscription {name} is paused"
    _change(session, name, "pause subscription", {"enabled": False}, text)


@push.command()
@click.argument("name")
@pass_session
def resume(session: Session, name: str) -> None:
    """Send the messages of subscription NAME again."""
    text = f"subscription {name} is resumed"
    _change(session, name, "resume subscription", {"enabled": True}, text)


def _change(session: Session, name: str, act: str, settings: dict[str, Any], text: str) -> None:
    session.run(set_subscription(name, settings))
    session.run(record_activity(getpass.getuser(), act, name))
    session.show(_document(session.run(read.subscription(name))), text)


@push.command("list")
@pass_session
def list_subscriptions(session: Session) -> None:
    """List the subscriptions with the counts of their deliveries."""
    documents = [_document(each) for each in session.run(read.subscriptions())]

    def text(screen: Screen) -> None:
        columns = ["name", "queue", "url", "enabled", "delivered", "failed", "last_error"]
        screen.table(columns, [[each[name] for name in columns] for each in documents])

    session.show({"subscriptions": documents}, text)


@push.command()
@click.argument("name")
@pass_session
def secret(session: Session, name: str) -> None:
    """Print the secrets of subscription NAME, which verify requests."""
    from penstock.secrets import SecretBox

    found = session.run(read.subscription(name))
    sealed = found.secret
    secrets = [] if sealed is None else SecretBox.from_environment().open(sealed).split()
    session.run(record_activity(getpass.getuser(), "show signing secret", name))
    session.show({"secrets": secrets}, "\n".join(secrets))


@push.command()
@click.argument("name")
@yes_option
@pass_session
def drop(session: Session, name: str, yes: bool) -> None:
    """Drop subscription NAME. The messages of its queue stay."""
    session.confirm(f"Drop subscription {name}?", yes)
    session.run(drop_subscription(name))
    session.run(record_activity(getpass.getuser(), "drop subscription", name))
    session.show({"name": name, "dropped": True}, f"subscription {name} is dropped")


@push.command()
@pass_session
def run(session: Session) -> None:
    """Send messages until SIGTERM, without the HTTP server.

    Servers send them too, unless PENSTOCK_PUSH is off there. The processes share the work.
    """
    session.show({"running": True}, "sending the messages of subscriptions")
    asyncio.run(_run(session.dsn))


async def _run(dsn: str | None) -> None:
    import os
    import socket

    from penstock.client.async_client import AsyncClient
    from penstock.db.listener import Listener
    from penstock.db.locate import locate
    from penstock.push.pusher import Pusher
    from penstock.server.settings import ServerSettings

    settings = ServerSettings.from_environment()
    found = await asyncio.to_thread(locate, dsn)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with AsyncClient(found, min_size=1, max_size=4) as client:
        listener = Listener(found, client.run)
        pusher = Pusher(
            found,
            client.run,
            listener,
            f"{socket.gethostname()}:{os.getpid()}",
            box=settings.addresses.box,
            allowed=settings.push_networks,
            max_bytes=settings.push_bytes,
        )
        await listener.start()
        pusher.start()
        try:
            await ended.wait()
        finally:
            await pusher.stop()
            await listener.stop()


def _sealed(variable: str | None, old: str | None) -> str:
    """The new secret, encrypted together with the previous one."""
    import os

    from penstock.push.signing import sealed_secret
    from penstock.secrets import SecretBox

    given = None if variable is None else os.environ.get(variable)
    if variable is not None and not given:
        raise click.UsageError(f"the variable {variable} is not set")
    return sealed_secret(SecretBox.from_environment(), given, old)


def _document(found: Subscription) -> dict[str, Any]:
    names = [name for name in Subscription.__slots__ if name != "secret"]
    return {name: getattr(found, name) for name in names}
