"""The steps to the current version of the schema, as the SQL files of the package have them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from penstock.errors import MigrationError

CODE_NAME: Final = "functions and views"
GRANTS_NAME: Final = "roles and grants"
CONTRACTS: Final = ("pgmq",)
"""Interfaces of other products that are installed on request."""
_CODE_FILES: Final = ("functions", "views", "mdb_queue")
_FILE_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
# A contract may create functions in our own schema. PostgreSQL lets all roles execute new ones.
_REVOKE_SQL: Final = "revoke all on all functions in schema penstock from public;\n"


@dataclass(frozen=True, slots=True)
class Migration:
    """One step. The functions and views together are the last step, with the target's version."""

    version: int
    name: str
    checksum: str


@dataclass(frozen=True, slots=True)
class Step:
    migration: Migration
    sql: str


class Plan:
    """The steps to this version of the schema, as the files have them."""

    def __init__(self, directory: Traversable | None = None) -> None:
        self._directory = directory if directory is not None else files("penstock") / "sql"

    @cached_property
    def migrations(self) -> list[Step]:
        steps = [self._migration(file) for file in _sql_files(self._directory / "migrations")]
        versions = [step.migration.version for step in steps]
        if versions != list(range(1, len(steps) + 1)):
            raise MigrationError(f"the migration files must be numbered 1, 2, 3..., not {versions}")
        return steps

    def _migration(self, file: Traversable) -> Step:
        match = _FILE_NAME.fullmatch(file.name)
        if match is None:
            raise MigrationError(f"{file.name} is not named like 0001_what_it_does.sql")
        text = file.read_text("utf-8")
        return Step(Migration(int(match[1]), match[2], _checksum(text)), text)

    @cached_property
    def code(self) -> Step:
        text = "\n".join([*map(self._generated, _CODE_FILES), self._roles("roles")])
        return Step(Migration(self.target, CODE_NAME, _checksum(text)), text)

    def grants(self, contracts: Iterable[str]) -> Step:
        """Creates the roles and their grants, with those of the installed contracts."""
        folders = ["roles", *(f"contracts/{name}" for name in contracts)]
        text = "\n".join(map(self._roles, folders))
        return Step(Migration(self.target, GRANTS_NAME, _checksum(text)), text)

    def contract(self, name: str) -> Step:
        """A contract. It is replaced with the functions, because it depends on them."""
        text = self._generated(name) + _REVOKE_SQL
        checksum = _checksum(self.code.sql + text)
        return Step(Migration(self.target, f"contract {name}", checksum), text)

    def _generated(self, name: str) -> str:
        file = self._directory / "generated" / f"{name}.sql"
        return file.read_text("utf-8") if file.is_file() else ""

    def _roles(self, folder: str) -> str:
        found = _sql_files(self._directory.joinpath(*folder.split("/")))
        return "\n".join(file.read_text("utf-8") for file in found if "_roles" in file.name)

    @property
    def target(self) -> int:
        return len(self.migrations)

    @property
    def ledger(self) -> str:
        return (files("penstock") / "sql" / "schema" / "ledger.sql").read_text("utf-8")


@cache
def schema_target() -> int:
    """The version of the schema that this Penstock installs."""
    return Plan().target


def _sql_files(folder: Traversable) -> list[Traversable]:
    if not folder.is_dir():
        return []
    return sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )


def _checksum(text: str) -> str:
    # The line endings of a checkout are not a change.
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()
