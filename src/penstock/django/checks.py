"""System checks of `manage.py check`. That of the schema needs `--deploy --database default`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.utils.connection import ConnectionDoesNotExist

from penstock.db.migrations import Migrator
from penstock.django.conf import penstock_settings
from penstock.django.database import driver_connection
from penstock.errors import PenstockError


def check_settings(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """The setting PENSTOCK, and the database that it names."""
    try:
        alias = penstock_settings().database
        wrapper = connections[alias]
    except (ImproperlyConfigured, ConnectionDoesNotExist) as error:
        return [Error(str(error), id="penstock.E001")]
    if wrapper.vendor != "postgresql":
        return [
            Error(
                f"Database {alias!r} is not PostgreSQL.",
                hint="Name a PostgreSQL database in PENSTOCK['DATABASE'].",
                id="penstock.E002",
            )
        ]
    options = wrapper.settings_dict
    if options["OPTIONS"].get("pool") and not options["CONN_HEALTH_CHECKS"]:
        return [
            Warning(
                f"Database {alias!r} has a pool without health checks.",
                hint="After a restart of PostgreSQL, the pool hands out connections that are "
                "closed. Set CONN_HEALTH_CHECKS to True.",
                id="penstock.W001",
            )
        ]
    return []


def check_schema(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """The version of the schema, if checks of the database are enabled."""
    try:
        alias = penstock_settings().database
        if alias not in (databases or ()) or connections[alias].vendor != "postgresql":
            return []
        pending = Migrator(driver_connection(connections[alias])).status().pending
    except ImproperlyConfigured:
        return []  # check_settings reports it
    except (DatabaseError, psycopg.Error, PenstockError) as error:
        return [Error(f"Schema penstock cannot be read: {error}", id="penstock.E003")]
    if pending:
        return [
            Warning(
                f"Schema penstock in database {alias!r} is not up to date.",
                hint="Run `manage.py migrate`.",
                id="penstock.W002",
            )
        ]
    return []
