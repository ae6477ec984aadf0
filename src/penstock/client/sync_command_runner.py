# Generated from client/async_command_runner.py by tools/generate_client.py. Do not edit.
"""The base of the parts of the client. The sync module is generated from the async one."""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.commands.arguments import UNSET
from penstock.commands.command import Command

T = TypeVar("T")


class CommandRunner:
    """Runs commands. The parts of the client inherit from it, and the client implements it."""

    def run(self, command: Command[T], connection: Any = UNSET) -> T:
        raise NotImplementedError
