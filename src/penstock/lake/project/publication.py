"""Own gold -> PostgreSQL: a real table in a schema of the user, with the rows of the lake's table.

Changed days are replaced in one transaction, so a reader sees a whole day before or after the
change. The statements run with the privileges of the lake's database user.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql
from pyspark.sql import Row
from pyspark.sql.types import DataType, DecimalType

from penstock.errors import ConfigurationError, translated
from penstock.lake import columns
from penstock.lake.damage import require_intact
from penstock.lake.lake import Lake
from penstock.lake.layout import LakeTable
from penstock.lake.project.own_gold import OwnGold, published_name
from penstock.lake.registry import Registry
from penstock.lake.storage.ledger import DataFile, State

_PG_CLEARS_STATISTICS: Final = 180000
_CLEAR: Final = (
    b"select pg_clear_attribute_stats(schemaname::text, tablename::text, attname::text, inherited)"
    b" from pg_stats where schemaname = %s and tablename = %s"
)
_TYPES: Final[dict[str, LiteralString]] = {
    "string": "text",
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "bytea",
}


def target(name: str) -> sql.Identifier:
    """`analytics.revenue` as an identifier."""
    return sql.Identifier(*published_name(name))


def publish_own_gold(lake: Lake, registry: Registry, state: State, published: int) -> int:
    """Updates the days that changed after a version of the lake. Returns the rows."""
    rows = 0
    for own in lake.declared().gold:
        if own.publish is not None:
            with translated():
                rows += _publish(lake, registry, state, own, own.publish, published)
    return rows


def analyze_own_gold(lake: Lake, registry: Registry) -> None:
    """Computes the statistics of the published tables again, which have values of their rows.

    ANALYZE leaves those of an empty table as they are, so PostgreSQL 18 clears them first.
    """
    connection = registry.connection()
    for own in lake.declared().gold:
        if own.publish is None:
            continue
        with translated(), connection.transaction():
            if connection.info.server_version >= _PG_CLEARS_STATISTICS:
                connection.execute(_CLEAR, own.publish.split("."))
            connection.execute(sql.SQL("analyze {}").format(target(own.publish)))


def _publish(
    lake: Lake, registry: Registry, state: State, own: OwnGold, name: str, published: int
) -> int:
    files = state.of(own.table)
    changed = {file.day for file in files if file.version > published}
    connection = registry.connection()
    table = target(name)
    with connection.transaction():
        is_new = _prepare(connection, table, name, own, lake.about.name)
        days = sorted({file.day for file in files} if is_new else changed)
        chosen = [file for file in files if file.day in days]
        require_intact(lake, chosen)
        kept = sorted({file.day for file in files} - set(days))
        connection.execute(
            sql.SQL("delete from {} where not (day = any (%s::date[]))").format(table), [kept]
        )
        return copy_rows(lake, own.table, chosen, connection, table) if chosen else 0


def copy_rows(
    lake: Lake,
    table: LakeTable,
    files: list[DataFile],
    connection: psycopg.Connection[Any],
    into: sql.Identifier,
) -> int:
    """Copies rows of the lake into a table of PostgreSQL. Returns their number."""
    fields = sql.SQL(", ").join(map(sql.Identifier, columns.names(table)))
    rows = 0
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.SQL("copy {} ({}) from stdin").format(into, fields)) as copy,
    ):
        for row in lake.frame(table, files).toLocalIterator(prefetchPartitions=True):
            copy.write_row([_value(value) for value in row])
            rows += 1
    return rows


def _prepare(
    connection: psycopg.Connection[Any], table: sql.Identifier, name: str, own: OwnGold, lake: str
) -> bool:
    """Creates the table, or adds missing columns. Returns whether it was created."""
    mark = f"Penstock writes this table: {own.table.path} of lake {lake}."
    schema = name.partition(".")[0]
    found = connection.execute(
        "select to_regclass(%s) is not null, obj_description(to_regclass(%s), 'pg_class'),"
        " to_regnamespace(%s) is not null",
        [name, name, schema],
    ).fetchone()
    exists, comment, has_schema = found or (False, None, False)
    if exists and comment != mark:
        raise ConfigurationError(
            f"PostgreSQL has a table {name} that {own.table.path} of this lake did not create",
            hint="Nothing was published. Choose another name, or drop that table.",
        )
    if not has_schema:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    if not exists:
        connection.execute(sql.SQL("create table {} ()").format(table))
        comment_on = sql.SQL("comment on table {} is {}")
        connection.execute(comment_on.format(table, sql.Literal(mark)))
    for field in columns.schema(own.table):
        add = sql.SQL("alter table {} add column if not exists {} {}")
        connection.execute(
            add.format(table, sql.Identifier(field.name), sql.SQL(_sql_type(field.dataType)))
        )
    if not exists:
        connection.execute(sql.SQL("create index on {} (day)").format(table))
    return not exists


def _sql_type(kind: DataType) -> LiteralString:
    return "numeric" if isinstance(kind, DecimalType) else _TYPES.get(kind.typeName(), "jsonb")


def _value(value: Any) -> Any:
    """In the format of COPY. Spark returns times in the machine's zone without a zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Row | list | dict):
        return json.dumps(_plain(value))
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return value if isinstance(value, str | int | float | None) else str(value)
