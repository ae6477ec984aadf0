"""What the suites import of the backends that they were written for."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from penstock.django import client
from penstock.django.backend import PenstockBackend
from penstock.django.task_api import InvalidTask

HERE = Path(__file__).parent


class _Anything:
    """Can be called, and used as a decorator."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes everything."""

    def __call__(self, function: Any = None, *args: Any, **kwargs: Any) -> Any:
        return function


class Absent(ModuleType):
    """A module of which no test that we run uses anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


def load(name: str, path: Path) -> ModuleType:
    """A file as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def install_tasks() -> None:
    """`from tests import tasks`."""
    package = sys.modules["tests"] = ModuleType("tests")
    package.tasks = load("tests.tasks", HERE / "tasks.py")  # type: ignore[attr-defined]


def install_django_tasks() -> None:
    """`django.tasks` is the package django-tasks, whose own distribution has no tests."""
    for name in ("", ".backends", ".backends.immediate", ".exceptions"):
        sys.modules[f"django.tasks{name}"] = importlib.import_module(f"django_tasks{name}")
    sys.modules["django.tasks.exceptions"].InvalidTask = InvalidTask  # type: ignore[attr-defined]
    logging.getLogger("django_tasks").parent = logging.getLogger("django.tasks")


def install_rq() -> None:
    for name in ("fakeredis", "rq", "rq.defaults", "rq.timeouts"):
        sys.modules[name] = Absent(name)
    backend = sys.modules["django_tasks_rq.backend"] = Absent("django_tasks_rq.backend")
    ours = sys.modules["django_tasks_rq"] = Absent("django_tasks_rq")
    ours.RQBackend = backend.RQBackend = PenstockBackend  # type: ignore[attr-defined]
    ours.compat = Absent("compat")  # type: ignore[attr-defined]
    queues = sys.modules["django_rq"] = Absent("django_rq")
    queues.get_queue = _RqQueue  # type: ignore[attr-defined]


def install_db() -> None:
    names = ("admin", "models", "utils", "management.commands.prune_db_task_results")
    for name in names:
        full = f"django_tasks_db.{name}"
        sys.modules[full] = Absent(full)
    ours = sys.modules["django_tasks_db"] = Absent("django_tasks_db")
    ours.DatabaseBackend = PenstockBackend  # type: ignore[attr-defined]


class _RqQueue:
    """A queue as the suite looks into it."""

    def __init__(self, name: str, job_class: Any = None) -> None:
        self._name = name

    @property
    def job_ids(self) -> list[str]:
        return [str(message.id) for message in client().messages(self._name)]

    def enqueue_call(self, path: str, args: Any) -> SimpleNamespace:
        sent = {"backend": "default", "priority": 0, "run_after": None}
        headers = {"penstock-task": path, "django-task": sent}
        id = client().enqueue(self._name, {"args": args, "kwargs": {}}, headers=headers)
        return SimpleNamespace(id=str(id))
