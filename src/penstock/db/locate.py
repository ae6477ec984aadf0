"""Finds the database that a client uses, and starts the embedded one if none is configured."""

from __future__ import annotations

import psycopg

from penstock.settings import Settings


def locate(dsn: str | None) -> str:
    """Return the DSN in use. If none is configured, start the embedded server and return its DSN.

    The embedded server belongs to Penstock, so its schema is migrated without asking.
    """
    settings = Settings.from_environment(dsn=dsn)
    if settings.dsn is not None:
        return settings.dsn
    # Only here, because most users have a database and migrate it themselves.
    from penstock.db.embedded import connect_dsn
    from penstock.db.migrations import Migrator

    embedded = connect_dsn(settings)
    with psycopg.connect(embedded, autocommit=True) as connection:
        Migrator(connection).up()
    return embedded
