"""`manage.py migrate` installs the schema and creates the queues."""

from __future__ import annotations

from io import StringIO

import psycopg
import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection, connections
from django.test import override_settings
from tests.django.conftest import point_at

from penstock import Client
from penstock.django.schema import install


def test_migrate_installs_the_schema_and_creates_the_queues(empty_dsn: str) -> None:
    point_at(empty_dsn)
    out = StringIO()
    call_command("migrate", stdout=out)
    assert "Applying penstock.0001_schema... OK" in out.getvalue()
    assert "Created queues: orders, emails, default" in out.getvalue()
    with Client(empty_dsn) as client:
        queues = {queue.name: queue for queue in client.queues()}
    assert set(queues) == {"orders", "emails", "default"}
    assert [queues[name].settings.lease_seconds for name in ("orders", "emails")] == [60, 30]
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    connections.close_all()


def test_migrate_changes_nothing_the_second_time(project: str, queue: Client) -> None:
    id = queue.enqueue("emails", 1)
    queue.set_queue("orders", lease_seconds=7)
    call_command("migrate", verbosity=0)
    assert queue.message(id).state == "ready"
    assert next(q for q in queue.queues() if q.name == "orders").settings.lease_seconds == 7


def test_migrate_brings_an_older_schema_up_to_date(project: str) -> None:
    with psycopg.connect(project, autocommit=True) as database:
        database.execute("update penstock.migration_code set checksum = 'of another version'")
        assert [each.id for each in _deploy_checks()] == ["penstock.W002"]
        call_command("migrate", verbosity=0)
        row = database.execute("select checksum from penstock.migration_code").fetchone()
    assert row is not None
    assert row[0] != "of another version"
    assert _deploy_checks() == []


def test_the_schema_survives_a_migration_to_zero(project: str, queue: Client) -> None:
    id = queue.enqueue("emails", 1)
    call_command("migrate", "penstock", "zero", verbosity=0)
    assert queue.message(id).state == "ready"


def test_another_database_is_left_alone(project: str, empty_dsn: str) -> None:
    point_at(empty_dsn)
    with override_settings(PENSTOCK={"DATABASE": "other"}):
        call_command("migrate", "penstock", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("select to_regnamespace('penstock') is null")
        assert cursor.fetchone() == (True,)
    connections.close_all()


def test_install_refuses_a_database_that_is_not_postgresql() -> None:
    from django.db.backends.sqlite3.base import DatabaseWrapper

    other = DatabaseWrapper({**connections.settings["default"], "NAME": ":memory:"}, "other")
    with pytest.raises(ImproperlyConfigured, match="not PostgreSQL"):
        install(other)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"DATABSE": "default"}, "unknown key 'DATABSE'"),
        ({"DATABASE": "absent"}, "absent"),
        ({"QUEUES": "orders"}, "list of names"),
        (["orders"], "must be a dictionary"),
    ],
)
def test_a_wrong_setting_is_reported(setting: object, said: str) -> None:
    with override_settings(PENSTOCK=setting):
        [error] = run_checks(tags=["penstock"])
    assert error.id == "penstock.E001"
    assert said in error.msg


def test_a_pool_without_health_checks_is_reported(project: str) -> None:
    options = connections.settings["default"]["OPTIONS"]
    options["pool"] = True
    try:
        assert [each.id for each in run_checks(tags=["penstock"])] == ["penstock.W001"]
    finally:
        del options["pool"]
    assert run_checks(tags=["penstock"]) == []


def test_a_database_without_the_schema_is_reported(empty_dsn: str) -> None:
    point_at(empty_dsn)
    assert [each.id for each in _deploy_checks()] == ["penstock.W002"]
    connections.close_all()


def _deploy_checks() -> list[object]:
    return run_checks(tags=["penstock"], include_deployment_checks=True, databases=["default"])
