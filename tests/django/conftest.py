"""The Django project of examples/django_app, on a database of each test's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from asgiref.sync import SyncToAsync
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import django
from penstock import Client
from penstock.db.embedded import EmbeddedPostgres

PROJECT = Path(__file__).parents[2] / "examples" / "django_app"
sys.path.insert(0, str(PROJECT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django.setup()

TEMPLATE = "django_template"
LIMIT = 60.0  # how long anything is waited for: a test that gets there has failed


def point_at(dsn: str, **settings: Any) -> None:
    """Have Django use a database: the wrappers of all threads share the settings."""
    from django.db import connections

    parts = conninfo_to_dict(dsn)
    connections.close_all()
    connections.settings["default"].update(
        NAME=parts["dbname"],
        USER=parts.get("user", ""),
        HOST=parts.get("host", ""),
        PORT=str(parts.get("port", "")),
        **{"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False, **settings},
    )


@pytest.fixture(scope="session")
def django_template(server: EmbeddedPostgres) -> str:
    """The name of a database after `manage.py migrate`. The first worker makes it."""
    from django.core.management import call_command
    from django.db import connections

    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute("select pg_advisory_lock(2)")
        query = "select 1 from pg_database where datname = %s"
        if admin.execute(query, [TEMPLATE]).fetchone() is None:
            admin.execute("create database django_being_made")
            point_at(server.dsn_of("django_being_made"))
            call_command("migrate", verbosity=0)
            connections.close_all()
            admin.execute(
                sql.SQL("alter database django_being_made rename to {}").format(
                    sql.Identifier(TEMPLATE)
                )
            )
    return TEMPLATE


@pytest.fixture
def project(make_database: Callable[[str], str], django_template: str) -> Iterator[str]:
    """The DSN of a database of this test's own, which the project uses."""
    from django.db import connections

    dsn = make_database(django_template)
    point_at(dsn)
    yield dsn
    connections.close_all()
    SyncToAsync.single_thread_executor.submit(connections.close_all).result(LIMIT)


@pytest.fixture
def queue(project: str) -> Iterator[Client]:
    """A client with connections of its own, which sees only what was committed."""
    with Client(project) as client:
        yield client
