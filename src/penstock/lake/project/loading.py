"""Loads the project of a lake from its file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Final

from pyspark import cloudpickle

from penstock.errors import ConfigurationError, PenstockError
from penstock.lake.project.project import Project

FILE_NAME: Final = "lake_project.py"


def load_project(place: str) -> Project:
    """The `project` in a file, or in lake_project.py of a directory."""
    path = Path(place).expanduser()
    if path.is_dir():
        path = path / FILE_NAME
    if not path.is_file():
        raise ConfigurationError(
            f"there is no project at {place}",
            hint="Name its directory or its file. `penstock lake init DIRECTORY` makes one.",
        )
    path = path.resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # so that the project can import its own modules
    name = f"penstock_project_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(
            f"{path} is not a Python file",
            hint=f"Name a file that ends in .py, or a directory with {FILE_NAME}.",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except PenstockError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"the project {path} cannot be loaded: {type(error).__name__}: {error}",
            hint=f"Correct it until `python {path}` ends without an error.",
        ) from error
    # Executors do not have the file, so its functions are sent to them by value.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    found = getattr(module, "project", None)
    if not isinstance(found, Project):
        raise ConfigurationError(
            f"{path} has no `project`",
            hint="Write `from penstock.lake.project import Project` and `project = Project()`.",
        )
    return found
