"""The admin UI: `path("queues/", include("penstock.django.urls"))`."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured
from django.urls import re_path

try:
    from penstock.django.ui_views import ui
except ModuleNotFoundError as error:
    if error.name not in ("jinja2", "msgspec", "prometheus_client", "starlette", "uvicorn"):
        raise
    raise ImproperlyConfigured(
        f"The admin UI needs {error.name}, which is not installed. "
        "Install it with: pip install 'penstock[django,server]'"
    ) from error

app_name = "penstock"
urlpatterns = [re_path(r"^(?P<path>.*)$", ui, name="ui")]
