"""The declarations of a user: models for queues, and functions that compute gold tables."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, NumericType, StructField, StructType

from penstock.errors import InvalidValueError
from penstock.lake import columns
from penstock.lake.layout import TABLES, LakeTable
from penstock.lake.models.model import Model, check_table_name
from penstock.lake.models.rules import Rule
from penstock.lake.models.sources import Declaration
from penstock.lake.project.own_gold import By, OwnGold, Transform, published_name
from penstock.spark.error_messages import refusal


@dataclass(frozen=True, slots=True)
class _GoldOptions:
    reads: tuple[str, ...]
    by: By
    combine: Mapping[str, str]
    publish: str | None
    version: int


@dataclass(slots=True)
class Project:
    """The models and the gold tables of a lake.

    ```python
    project = Project()
    project.model("orders", "customer BIGINT NOT NULL, amount DECIMAL(10,2)")

    @project.gold("revenue", reads="silver_orders")
    def revenue(orders):
        return orders.groupBy("day", "customer").agg(sf.sum("amount").alias("amount"))
    ```
    """

    _models: dict[str, tuple[Declaration, tuple[Rule, ...], str | None]] = field(
        default_factory=dict
    )
    _gold: dict[str, tuple[Transform, _GoldOptions]] = field(default_factory=dict)

    def model(
        self,
        queue: str,
        model: Declaration,
        *,
        rules: Sequence[Rule] = (),
        table: str | None = None,
    ) -> None:
        """Declare the payloads of a queue.

        Args:
            queue: The queue.
            model: Columns in Spark DDL, a JSON Schema (a dict, or the path of a file), a pydantic
                model, a msgspec Struct or a dataclass.
            rules: Quality rules for its rows.
            table: The name of the table in silver. Default: the name of the queue.
        """
        if queue in self._models:
            raise InvalidValueError(
                f"queue {queue} has two models",
                hint="Declare one model for each queue. Fields that only some messages have are "
                "nullable.",
                field="queue",
                value=queue,
            )
        self._models[queue] = (model, tuple(rules), table)

    def gold(
        self,
        name: str,
        *,
        reads: str | Sequence[str],
        by: By = "day",
        combine: Mapping[str, str] | None = None,
        publish: str | None = None,
        version: int = 1,
    ) -> Callable[[Transform], Transform]:
        """Register a function that computes a gold table. It gets one DataFrame for each input.

        Its result has the column `day` of its input. A row may depend on rows of its day only.

        Args:
            name: The name of the table in gold.
            reads: Tables of silver, such as `silver_orders` or `silver_messages`.
            by: `day` computes the days with new rows again, from all of their rows. `row` applies
                the function to new rows only, and appends its result.
            combine: Columns to add up, such as `{"amount": "sum"}` (or `min`, `max`). The function
                gets new rows only, and rows that agree in all other columns are combined.
            publish: A table of PostgreSQL, such as `analytics.revenue`, that gets the same rows.
            version: Raise it if the table has to be computed again because something else than
                the text of the function has changed.
        """
        check_table_name(name, "gold")
        if name in self._gold:
            raise InvalidValueError(
                f"gold table {name} has two functions",
                hint="Give one of them another name.",
                field="gold",
            )
        if publish is not None:
            published_name(publish)
            for other, (_, declared) in self._gold.items():
                if declared.publish == publish:
                    raise InvalidValueError(
                        f"gold tables {other} and {name} are both published as {publish}",
                        hint="Publish one of them under another name.",
                        field="publish",
                        value=publish,
                    )
        inputs = (reads,) if isinstance(reads, str) else tuple(reads)
        options = _GoldOptions(inputs, by, dict(combine or {}), publish, version)

        def register(transform: Transform) -> Transform:
            self._gold[name] = (transform, options)
            return transform

        return register

    def transform(self, name: str) -> Transform | None:
        """The function of a gold table."""
        return self._gold[name][0] if name in self._gold else None

    def models(self) -> list[Model]:
        """The models as the lake stores them. Models in DDL need a running Spark."""
        found = []
        for queue, (declared, rules, table) in self._models.items():
            found.append(Model.declare(queue, declared, rules, table))
        return found

    def own_gold(self, spark: SparkSession, models: Sequence[Model]) -> list[OwnGold]:
        """The gold tables, with the columns that their functions return."""
        silver = {t.path: t for t in TABLES.values() if t.layer == "silver"}
        silver |= {model.table.path: model.table for model in models}
        return [self._own_gold(spark, name, silver) for name in self._gold]

    def _own_gold(self, spark: SparkSession, name: str, silver: dict[str, LakeTable]) -> OwnGold:
        transform, options = self._gold[name]
        tables = [_input(each, silver, name) for each in options.reads]
        schema = _result_schema(spark, name, transform, tables)
        if missing := [column for column in options.combine if column not in schema.fieldNames()]:
            raise InvalidValueError(
                f"gold table {name} combines {missing[0]!r}, which its function does not return",
                hint=f"Its columns are: {', '.join(schema.fieldNames())}.",
                field="combine",
            )
        for column, how in options.combine.items():
            kind = schema[column].dataType
            if column == "day" or (how == "sum" and not isinstance(kind, NumericType)):
                raise InvalidValueError(
                    f"gold table {name} cannot combine {column!r} of type {kind.simpleString()} "
                    f"with {how}",
                    hint="Sum numbers. Rows of different days are never combined.",
                    field="combine",
                )
        text = f"{options.version}\n{inspect.getsource(transform)}"
        return OwnGold(
            name,
            tuple(table.path for table in tables),
            options.by,
            options.combine,
            options.publish,
            schema.json(),
            hashlib.sha256(text.encode()).hexdigest(),
        )


def _input(name: str, silver: dict[str, LakeTable], gold: str) -> LakeTable:
    for table in silver.values():
        if name in (table.path, table.view):
            return table
    raise InvalidValueError(
        f"gold table {gold} reads {name}, which is not a table of silver",
        hint=f"Allowed: {', '.join(table.view for table in silver.values())}.",
        field="reads",
        value=name,
    )


def _result_schema(
    spark: SparkSession, name: str, transform: Transform, tables: Sequence[LakeTable]
) -> StructType:
    """The result of the function for an empty input."""
    empty = [spark.createDataFrame([], columns.schema(table)) for table in tables]
    try:
        result: object = transform(*empty)
    except Exception as error:
        kind = "" if isinstance(error, PySparkException) else f"{type(error).__name__}: "
        raise InvalidValueError(
            f"the function of gold table {name} fails: {kind}{refusal(error)}",
            hint="It gets one DataFrame for each table that it reads.",
            field="gold",
        ) from error
    if not isinstance(result, DataFrame):
        kind = type(result).__name__
        raise InvalidValueError(
            f"the function of gold table {name} returns {kind}, not a DataFrame",
            hint="End it with `return` and the DataFrame of its rows.",
            field="gold",
        )
    found = result.schema
    if "day" not in found.fieldNames() or found["day"].dataType != DateType():
        raise InvalidValueError(
            f"the result of gold table {name} has no column day of type DATE",
            hint="Keep the column day of the input, such as in groupBy('day', ...).",
            field="gold",
        )
    names = [column.lower() for column in found.fieldNames()]
    if doubled := {column for column in names if names.count(column) > 1}:
        raise InvalidValueError(
            f"the result of gold table {name} has two columns {min(doubled)}",
            hint="Give one of them another name. Names of columns ignore case.",
            field="gold",
        )
    inner = [StructField(f.name, f.dataType) for f in found if f.name != "day"]
    return StructType([*inner, StructField("day", DateType())])
