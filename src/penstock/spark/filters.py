"""Spark's filters as SQL, if PostgreSQL decides them exactly as Spark does.

Spark applies the other filters. It compares strings by their bytes, so it also decides the order of
strings. Equality and prefixes mean the same in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from psycopg import sql
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from penstock.spark.options import SourceOptions
from penstock.spark.table_columns import SERVICE, Table

_ORDERED: Final = {
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_NUMBERS: Final = ("bigint", "int")
# JSON is text in Spark and jsonb here, no index orders rows by xid, and only Spark has the column
# for the service.
_LEFT_TO_SPARK: Final = (SERVICE, "payload", "headers", "xid")


class PushesFilters:
    """For a reader whose `filter` is a condition in SQL.

    A mixin, because Spark refuses a reader that has `pushFilters` unless
    spark.sql.python.filterPushdown.enabled is set, and its default is false.
    """

    options: SourceOptions
    filter: str

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        conditions, left = push_down(self.options.table, filters)
        self.filter = " and ".join([self.filter, *conditions])
        return left


def push_down(table: Table, filters: Iterable[Filter]) -> tuple[list[str], list[Filter]]:
    """The filters as conditions in SQL, and those that Spark has to evaluate."""
    types = {
        column.name: column.spark_type
        for column in table.columns
        if column.name not in _LEFT_TO_SPARK and column.spark_type != "binary"
    }
    conditions, left = [], []
    for each in filters:
        condition = _condition(each, types)
        if condition is None:
            left.append(each)
        else:
            conditions.append(condition.as_string(None))
    return conditions, left


def _condition(found: Filter, types: dict[str, str]) -> sql.Composable | None:
    if isinstance(found, Not):
        inner = _condition(found.child, types)
        return None if inner is None else sql.SQL("not ({})").format(inner)
    attribute: tuple[str, ...] = getattr(found, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in types:
        return None
    column, kind = sql.Identifier(attribute[0]), types[attribute[0]]
    if isinstance(found, IsNull | IsNotNull):
        word = "is null" if isinstance(found, IsNull) else "is not null"
        return sql.SQL("{} {}").format(column, sql.SQL(word))
    return _comparison(found, column, kind)


def _comparison(found: Any, column: sql.Identifier, kind: str) -> sql.Composable | None:
    if isinstance(found, In):
        literals = [_literal(value, kind) for value in found.value]
        known = [literal for literal in literals if literal is not None]
        if not known or len(known) < len(literals):
            return None
        return sql.SQL("{} in ({})").format(column, sql.SQL(", ").join(known))
    literal = _literal(found.value, kind)
    if literal is None:
        return None
    if isinstance(found, StringStartsWith):
        return sql.SQL("{} ^@ {}").format(column, literal)
    if isinstance(found, EqualTo | EqualNullSafe):
        operator = "=" if isinstance(found, EqualTo) else "is not distinct from"
    elif kind != "string" and type(found) in _ORDERED:
        operator = _ORDERED[type(found)]
    else:
        return None
    return sql.SQL("{} {} {}").format(column, sql.SQL(operator), literal)


def _literal(value: Any, kind: str) -> sql.Composable | None:
    """None if PostgreSQL and Spark may see different values in it."""
    if kind == "string" and isinstance(value, str) and "\0" not in value:
        return sql.SQL("{}::text").format(sql.Literal(value))
    if kind in _NUMBERS and isinstance(value, int) and not isinstance(value, bool):
        return sql.SQL("{}::bigint").format(sql.Literal(str(value)))
    if kind == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
        text = value.astimezone(UTC).isoformat()
        return sql.SQL("{}::timestamptz").format(sql.Literal(text))
    return None
