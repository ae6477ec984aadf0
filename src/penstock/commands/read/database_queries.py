"""The database: its schema version, server settings, storage and the oldest snapshots."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final

from penstock.commands.command import Command, Rows, call, scalar, utc_row
from penstock.commands.payload import decode_json
from penstock.model.monitoring import HorizonHolder
from penstock.sql.loader import load_query

_SCHEMA_VERSION: Final = call("schema_version")
_OLDEST_CLIENT: Final = call("oldest_client")


def schema_version() -> Command[int]:
    """The version of the schema in the database."""
    return Command(_SCHEMA_VERSION, {}, scalar)


def oldest_client() -> Command[int]:
    """The schema version of the oldest clients that work with the database."""
    return Command(_OLDEST_CLIENT, {}, scalar)


@cache
def known_schema_version() -> int:
    """The version of the schema that this package was written for: the number of migrations."""
    folder = files("penstock") / "sql" / "migrations"
    return sum(file.name.endswith(".sql") for file in folder.iterdir())


def server() -> Command[dict[str, Any]]:
    """The database server: its version, and the settings that matter to a queue."""
    names = (
        "version_number",
        "version",
        "database",
        "username",
        "sees_all_sessions",
        "read_only",
        "settings",
    )
    return Command(
        load_query("read/server"), {}, lambda rows: dict(zip(names, rows[0], strict=True))
    )


def storage() -> Command[dict[str, Any]]:
    """The size of the tables on disk: the ring, the slots of history, and the rest."""
    return Command(load_query("read/storage"), {}, lambda rows: decode_json(rows[0][0]))


def horizon() -> Command[list[HorizonHolder]]:
    """The holders of the oldest snapshots and transaction ids, the oldest first."""

    def decode(rows: Rows) -> list[HorizonHolder]:
        return [HorizonHolder(*utc_row(row)) for row in rows]

    return Command(load_query("read/horizon"), {}, decode)
