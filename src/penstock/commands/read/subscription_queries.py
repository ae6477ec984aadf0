"""Subscriptions."""

from __future__ import annotations

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, utc_row
from penstock.errors import SubscriptionNotFoundError
from penstock.model.subscription import Subscription
from penstock.sql.loader import load_query


def subscriptions() -> Command[list[Subscription]]:
    """Every subscription, by name."""
    return Command(load_query("read/subscriptions"), {"name": None}, _decoded)


def subscription(name: str) -> Command[Subscription]:
    """One subscription."""

    def decode(rows: Rows) -> Subscription:
        if not rows:
            raise SubscriptionNotFoundError(
                f"subscription {name!r:.200} does not exist",
                hint="Create it with `penstock push create`.",
                subscription=name[:200],
            )
        return _decoded(rows)[0]

    return Command(load_query("read/subscriptions"), {"name": check.text("name", name)}, decode)


def _decoded(rows: Rows) -> list[Subscription]:
    return [Subscription(*utc_row(row)) for row in rows]
