"""`help()` of a public function describes its parameters and its result."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Client

MODULES = ("penstock", "penstock.http", "penstock.operations", "penstock.testing")
MODULES += ("penstock.worker", "penstock.importing", "penstock.django")
# They implement a method of a base class, which has the description.
INHERITED = {"TaskLogHandler.emit", "PgmqSource.rows", "PgmqSource.remove", "PgmqSource.count"}
INHERITED |= {"PgmqSource.held", "TableSource.rows", "TableSource.remove", "TableSource.count"}
INHERITED |= {"TableSource.held"}
NO_RESULT = ("None", "Command[None]", "NoReturn")


def public() -> Iterator[tuple[str, Any]]:
    """The functions, the methods, and the classes that have their own constructor."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if not getattr(value, "__module__", "").startswith("penstock"):
                continue
            if inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value
            elif inspect.isclass(value) and not issubclass(value, BaseException):
                yield f"{module.__name__}.{name}", value
                yield from (
                    (f"{module.__name__}.{name}.{each}", method)
                    for each, method in inspect.getmembers(value, inspect.isfunction)
                    if not each.startswith("_") and method.__module__.startswith("penstock")
                )


@pytest.mark.parametrize(("name", "value"), list(public()), ids=[name for name, _ in public()])
def test_the_docstring_describes_every_parameter_and_the_result(name: str, value: Any) -> None:
    if ".".join(name.split(".")[-2:]) in INHERITED:
        return
    text = inspect.getdoc(value)
    assert text, name
    if inspect.isclass(value) and "Attributes:" not in text and "__init__" not in vars(value):
        return
    if another := re.search(r"(?:^As|^Like|\nSee) `(?:Client\.)?(\w+)`", text):
        owner = Client if "Client." in another[0] else _owner(name)
        assert hasattr(owner, another[1]), f"{name}: there is no {another[1]}"
        return
    described = set(re.findall(r"^ +\*{0,2}(\w+):", text, re.MULTILINE))
    internal = {"Task", "Delivery", "Source"}  # made by Penstock only, or a protocol
    if inspect.isclass(value) and value.__name__ in internal:
        return
    parameters = {each for each in inspect.signature(value).parameters if not each.startswith("_")}
    assert parameters - described - {"self"} == set()
    if inspect.isfunction(value) and inspect.signature(value).return_annotation not in NO_RESULT:
        assert re.search(r"^(?:Returns|Yields):|\bReturns? ", text, re.MULTILINE), name


@pytest.mark.parametrize("module", MODULES)
def test_every_public_module_has_a_page_in_the_reference(module: str) -> None:
    pages = Path(__file__).parents[2] / "docs" / "reference" / "api"
    page = pages / f"{module.removeprefix('penstock.')}.md"
    assert page.read_text("utf-8").startswith(f"# `{module}`\n")
    assert re.search(rf"^::: {re.escape(module)}(?:\.|$)", page.read_text("utf-8"), re.MULTILINE)


def _owner(name: str) -> Any:
    """The class or the module of a function."""
    path = name.split(".")
    for end in range(len(path) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(path[:end]))
        except ImportError:
            continue
        for each in path[end:-1]:
            found = getattr(found, each)
        return found
    raise AssertionError(name)
