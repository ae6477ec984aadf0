"""The tasks. `manage.py penstock_worker` finds them, because the module is called `tasks`."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.core.mail import send_mail
from django.db import transaction
from django.utils import timezone

from orders.models import Order, Receipt
from penstock.django import app


@app.task(queue="emails", retry=5, timeout=30)
def send_receipt(order_id: int, total: Decimal) -> None:
    """A task that is not async runs in a thread, and uses the ORM as a view does."""
    order = Order.objects.get(pk=order_id)
    text = f"You paid {total} for: {order.item}."
    with transaction.atomic():
        _, is_new = Receipt.objects.get_or_create(order=order, defaults={"text": text})
        if is_new:
            # Enqueued if this transaction commits.
            pack.enqueue_sync(order_id)
    if is_new:
        send_mail("Your receipt", text, "shop@example.com", [order.email])


@app.task(queue="orders", keep_result=True)
async def pack(order_id: int) -> datetime:
    """An async task runs on the event loop, and uses the async methods of the ORM."""
    packed_at = timezone.now()
    await Order.objects.filter(pk=order_id).aupdate(packed_at=packed_at)
    return packed_at
