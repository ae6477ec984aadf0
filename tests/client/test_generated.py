"""The sync client is the async one, word by word."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import AsyncClient, Client, operations

GENERATOR = Path(__file__).parents[2] / "tools" / "generate_client.py"


def methods(client):
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_generated_client_is_up_to_date():
    subprocess.run([sys.executable, GENERATOR, "--check"], check=True)


def test_both_clients_have_the_same_methods_with_the_same_arguments():
    sync, asynchronous = methods(Client), methods(AsyncClient)
    assert {name: list(found.parameters) for name, found in sync.items()} == {
        name: list(found.parameters) for name, found in asynchronous.items()
    }


@pytest.mark.parametrize("verb", [name for name in operations.__all__ if name != "Command"])
def test_every_operation_is_a_method_of_the_client(verb):
    assert callable(getattr(Client, verb))


def test_every_method_of_the_async_client_is_to_be_awaited():
    assert all(
        inspect.iscoroutinefunction(getattr(AsyncClient, name)) for name in methods(AsyncClient)
    )
