"""`manage.py test`: each test is rolled back, and so are the messages that it enqueued."""

from __future__ import annotations

from decimal import Decimal

from django.core import mail
from django.test import TestCase

from orders.models import Order
from orders.tasks import pack, send_receipt
from penstock.django.testing import arun_enqueued, run_enqueued


class OrderTests(TestCase):
    def test_an_order_is_packed_and_its_receipt_is_sent(self) -> None:
        form = {"email": "ada@example.com", "item": "lamp", "total": "12.50"}
        placed = self.client.post("/orders/", form)
        self.assertEqual(placed.status_code, 201)
        self.assertEqual(len(run_enqueued()), 2)
        self.assertEqual(mail.outbox[0].body, "You paid 12.50 for: lamp.")
        self.assertTrue(self.client.get(f"/orders/{placed.json()['id']}/").json()["packed"])

    def test_a_receipt_is_sent_once_though_its_task_runs_twice(self) -> None:
        order = Order.objects.create(email="ada@example.com", item="lamp", total=1)
        for _ in range(2):
            send_receipt.enqueue_sync(order.pk, Decimal(1))
        run_enqueued("emails")
        self.assertEqual(len(mail.outbox), 1)

    def test_an_order_without_a_total_is_refused(self) -> None:
        self.assertEqual(self.client.post("/orders/", {"item": "lamp"}).status_code, 400)
        self.assertEqual(run_enqueued(), [])

    async def test_a_result_is_typed(self) -> None:
        order = await Order.objects.acreate(email="ada@example.com", item="lamp", total=1)
        handle = await pack.enqueue(order.pk)
        await arun_enqueued()
        await order.arefresh_from_db()
        self.assertEqual(await handle.result(), order.packed_at)
