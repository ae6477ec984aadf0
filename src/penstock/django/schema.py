"""Installs the schema and creates queues, through a connection of Django."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import autodiscover_modules

from penstock.db.migration_plan import Migration
from penstock.db.migrations import Migrator
from penstock.django.conf import penstock_settings
from penstock.django.database import client, driver_connection


def install(wrapper: BaseDatabaseWrapper) -> list[Migration]:
    """Bring the schema to the version of this package, unless it has that version already.

    Each step has its own transaction, so this must not run inside one.
    """
    if wrapper.vendor != "postgresql":
        raise ImproperlyConfigured(
            f"Database {wrapper.alias!r} is not PostgreSQL. Name one that is in "
            "PENSTOCK['DATABASE']."
        )
    return Migrator(driver_connection(wrapper)).up()


def create_queues(using: str) -> list[str]:
    """Create the queues that are missing, and return their names.

    They are those of the setting, of the tasks in the modules `tasks` of installed apps, and of the
    backends in `TASKS`. Existing queues keep their settings.
    """
    queues = client(using)
    there = {queue.name for queue in queues.queues()}
    missing = {name: value for name, value in wanted_queues().items() if name not in there}
    for name, settings in missing.items():
        queues.create_queue(name, exist_ok=True, **settings)
    return list(missing)


def wanted_queues() -> Mapping[str, Mapping[str, Any]]:
    """The queues of this project, with the settings that `PENSTOCK['QUEUES']` has for them."""
    from penstock.django import app
    from penstock.django.task_queues import backend_queues

    autodiscover_modules("tasks")
    settings = penstock_settings().queues
    names = dict.fromkeys([*settings, *app.queues, *backend_queues()])
    return {name: settings.get(name, {}) for name in names if not name.endswith(".dlq")}
