"""Orders, and the receipts that were sent for them."""

from django.db import models


class Order(models.Model):
    email = models.EmailField()
    item = models.CharField(max_length=100)
    total = models.DecimalField(max_digits=10, decimal_places=2)
    packed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.item} for {self.email}"


class Receipt(models.Model):
    # A task may run twice, after a crash. This is how the second run does nothing.
    order = models.OneToOneField(Order, on_delete=models.CASCADE)
    text = models.TextField()

    def __str__(self) -> str:
        return f"receipt of order {self.order_id}"
