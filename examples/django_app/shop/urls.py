"""The addresses of the project. Staff find the admin UI of the queues at /queues/."""

from django.contrib import admin
from django.urls import include, path

from orders.views import order, place_order

urlpatterns = [
    path("admin/", admin.site.urls),
    path("queues/", include("penstock.django.urls")),
    path("orders/", place_order, name="place_order"),
    path("orders/<int:id>/", order, name="order"),
]
