"""The suites: where each comes from, how it runs here, and which tests do not apply."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from django.test import TransactionTestCase
from tests.django_suites import stand_ins

import django
from penstock.django.testing import purge_queues, run_enqueued


@dataclass(frozen=True)
class Suite:
    """`load` returns the module with the tests. `not_ours` says why a test does not apply."""

    package: str
    case: str
    load: Callable[[Path], ModuleType]
    not_ours: dict[str, str]

    def adapted(self, directory: Path) -> type[Any]:
        """The class of tests, on a database, with our worker."""
        found = getattr(self.load(directory), self.case)

        class Adapted(found, TransactionTestCase):  # type: ignore[misc, valid-type]
            databases = {"default"}  # noqa: RUF012

            def setUp(self) -> None:
                purge_queues()

            def run_worker(self, **_: Any) -> None:
                run_enqueued(raise_errors=False)

        for name, reason in self.not_ours.items():
            if not hasattr(found, name):
                raise LookupError(f"{self.package} no longer has a test {name}")
            setattr(Adapted, name, _skipped(reason))
        Adapted.__qualname__ = found.__qualname__
        return Adapted


def _skipped(reason: str) -> Callable[[Any], None]:
    def test(self: Any) -> None:
        self.skipTest(reason)

    return test


def _load_rq(directory: Path) -> ModuleType:
    stand_ins.install_rq()
    stand_ins.install_tasks()
    return stand_ins.load("rq_suite", directory / "tests" / "tests.py")


def _load_db(directory: Path) -> ModuleType:
    stand_ins.install_db()
    stand_ins.install_tasks()
    return stand_ins.load("db_suite", directory / "tests" / "tests.py")


def _load_django(directory: Path) -> ModuleType:
    if django.VERSION < (6, 0):
        stand_ins.install_django_tasks()
    from django.tasks.backends import immediate
    from tests.django_suites.immediate import RunAtOnceBackend

    immediate.ImmediateBackend = RunAtOnceBackend  # type: ignore[misc, assignment]
    sys.modules["tests"] = ModuleType("tests")
    package = sys.modules["tests.tasks"] = ModuleType("tests.tasks")
    package.__path__ = [str(directory / "tests" / "tasks")]
    return stand_ins.load(
        "tests.tasks.test_immediate_backend",
        directory / "tests" / "tasks" / "test_immediate_backend.py",
    )


_RQ_ONLY = "looks at the queues or jobs of RQ"
_UUID = "our ids are numbers, not UUIDs"
_TABLE = "looks at the table of django-tasks-db"
_ID_FUNCTION = "about id_function, an option of django-tasks-db"
_COUNT = "counts the statements of django-tasks-db"

SUITES = {
    "rq": Suite(
        "django-tasks-rq==0.12.0",
        "RQBackendTestCase",
        _load_rq,
        {
            "test_complex_return_value": "expects a text of RQ; ours is tests/django",
            "test_exception_classes_pop_empty_list_bug": _RQ_ONLY,
            "test_rq_app_missing": "expects the name of the app in the hint; ours is tests/django",
            "test_unknown_queue_name": "about RQ_QUEUES",
            "test_uses_rq_queues_for_queue_names": "about RQ_QUEUES",
        },
    ),
    "db": Suite(
        "django-tasks-db==0.13.0",
        "DatabaseBackendTestCase",
        _load_db,
        {
            "test_custom_id_function": _ID_FUNCTION,
            "test_database_backend_app_missing": "expects the name of the app in the hint",
            "test_doesnt_wait_until_transaction_commit": _TABLE,
            "test_enqueue_task": _UUID,
            "test_enqueue_task_async": _UUID,
            "test_get_result": _COUNT,
            "test_index_scan_for_ready": _TABLE,
            "test_invalid_task_path": _TABLE,
            "test_missing_task_path": _TABLE,
            "test_postgres_db_id_function": _ID_FUNCTION,
            "test_postgres_id_function_expression": _ID_FUNCTION,
            "test_priority_range_check": _TABLE,
            "test_refresh_result": _TABLE,
            "test_refresh_result_async": _TABLE,
            "test_run_after_null_0016_migration": _TABLE,
            "test_run_after_tz": _TABLE,
            "test_task_name": _TABLE,
            "test_unknown_id_function": _ID_FUNCTION,
        },
    ),
    "django": Suite(
        "Django==6.1.3",
        "ImmediateBackendTestCase",
        _load_django,
        {
            "test_cannot_get_result": "our backend keeps results",
            "test_cannot_pass_run_after": "our backend supports run_after",
            "test_cannot_refresh_result": "our backend keeps results",
            "test_throws_keyboard_interrupt": "a worker survives what a task raises",
        },
    ),
}
