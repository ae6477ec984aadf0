"""A task that runs in a process. A child imports this module."""

from __future__ import annotations

from orders.models import Order
from penstock import current
from penstock.django import App

app = App()


@app.task(queue="emails", process=True, keep_result=True)
def store(item: str) -> int:
    current().progress(0.5)
    return Order.objects.create(email="process", item=item, total=0).pk
