"""Places orders."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from orders.models import Order
from orders.tasks import send_receipt


@csrf_exempt
@require_POST
def place_order(request: HttpRequest) -> HttpResponse:
    try:
        total = Decimal(request.POST["total"])
        email, item = request.POST["email"], request.POST["item"]
    except (KeyError, InvalidOperation):
        return JsonResponse({"error": "email, item and total are required"}, status=400)
    with transaction.atomic():
        order = Order.objects.create(email=email, item=item, total=total)
        # In the same transaction: no order without its receipt, and no receipt without its order.
        send_receipt.enqueue_sync(order.pk, total)
    return JsonResponse({"id": order.pk}, status=201)


@require_GET
def order(request: HttpRequest, id: int) -> HttpResponse:
    found = get_object_or_404(Order, pk=id)
    return JsonResponse({"item": found.item, "packed": found.packed_at is not None})
