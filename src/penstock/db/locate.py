"""Finds the database that a client uses, and starts the embedded one where none is named."""

from __future__ import annotations

import psycopg

from penstock.settings import Settings


def locate(dsn: str | None) -> str:
    """The DSN in force; if none is named anywhere, that of the embedded server, started.

    That one is ours alone, so the schema is brought into it without being asked.
    """
    settings = Settings.from_environment(dsn=dsn)
    if settings.dsn is not None:
        return settings.dsn
    # Only here: most users have a database, and migrate it themselves.
    from penstock.db.embedded import connect_dsn
    from penstock.db.migrations import Migrator

    embedded = connect_dsn(settings)
    with psycopg.connect(embedded, autocommit=True) as connection:
        Migrator(connection).up()
    return embedded
