"""A model: the typed table of one queue, its columns and its rules."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import InvalidValueError, LakeMismatchError
from penstock.lake.layout import TABLES, LakeTable, typed_table
from penstock.lake.models.field_types import Field, fields_of
from penstock.lake.models.rules import Rule
from penstock.lake.models.sources import Declaration, json_schema
from penstock.spark.error_messages import refusal

KIND: Final = "model"
# The columns of a message, which precede those of its payload.
MESSAGE_COLUMNS: Final = {
    "service": StringType(),
    "id": LongType(),
    "state": StringType(),
    "enqueued_at": TimestampType(),
    "finished_at": TimestampType(),
    "attempts": IntegerType(),
    "key": StringType(),
}
FAILED_RULES: Final = "message_failed_rules"
_TABLE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Model:
    queue: str
    name: str
    schema: Mapping[str, Any]
    fields: tuple[Field, ...]
    rules: tuple[Rule, ...]

    @classmethod
    def declare(
        cls,
        queue: str,
        declared: Declaration,
        rules: Sequence[Rule] = (),
        table: str | None = None,
    ) -> Model:
        """From the declaration in a project. DDL needs a running Spark."""
        name = check_table_name(table or re.sub(r"[^a-z0-9_]", "_", queue), "silver")
        schema = json_schema(declared)
        names = [rule.name for rule in rules]
        if doubled := {each for each in names if names.count(each) > 1}:
            raise InvalidValueError(
                f"the model of queue {queue} has two rules called {min(doubled)}",
                hint="Give one of them another name.",
                field="rules",
            )
        return cls(queue, name, schema, fields_of(schema), tuple(rules))

    @property
    def table(self) -> LakeTable:
        meta = [StructField(f"message_{name}", kind) for name, kind in MESSAGE_COLUMNS.items()]
        typed = [StructField(field.column, field.type) for field in self.fields]
        struct = StructType(
            [
                *meta,
                StructField(FAILED_RULES, ArrayType(StringType())),
                *typed,
                StructField("day", DateType()),
                StructField("queue", StringType()),
            ]
        )
        return typed_table(self.name, struct.json())

    def after(self, before: Model) -> Model:
        """This model as the next version of another: columns are added, never changed or dropped.

        A field that the model no longer has stays as a column, and is null from now on.
        """
        known = {field.column: field for field in before.fields}
        for field in self.fields:
            old = known.get(field.column)
            if old is None and field.required:
                raise LakeMismatchError(
                    f"the model of queue {self.queue} has a new field {field.name!r}, which is "
                    "required: earlier messages lack it",
                    hint="Make the field optional, or give the model another table.",
                )
            if old is not None and old.type != field.type:
                raise LakeMismatchError(
                    f"the model of queue {self.queue} changes the type of {field.name!r} from "
                    f"{old.type.simpleString()} to {field.type.simpleString()}",
                    hint="Keep the type, or give the model another table.",
                )
        now = {field.column for field in self.fields}
        dropped = tuple(
            Field(old.name, old.column, old.type, False)
            for old in before.fields
            if old.column not in now
        )
        order = {column: number for number, column in enumerate(known)}
        fields = sorted((*self.fields, *dropped), key=lambda f: order.get(f.column, len(order)))
        return Model(self.queue, self.name, self.schema, tuple(fields), self.rules)

    def check_rules(self, spark: SparkSession) -> None:
        """Raises InvalidValueError for a rule that the columns of the table do not allow."""
        empty = spark.createDataFrame([], StructType.fromJson(json.loads(self._schema_text())))
        for rule in self.rules:
            try:
                empty.where(rule.condition()).schema  # noqa: B018
                if constants := rule.constants(empty):
                    spark.range(1).select(*constants).collect()
            except PySparkException as error:
                raise InvalidValueError(
                    f"rule {rule.name} of queue {self.queue} cannot be used: {refusal(error)}",
                    hint=f"The columns are: {', '.join(empty.columns)}.",
                    field="rules",
                ) from None

    def _schema_text(self) -> str:
        return self.table.declared_schema or ""

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "queue": self.queue,
            "name": self.name,
            "schema": self.schema,
            "fields": [field.as_json() for field in self.fields],
            "rules": [rule.as_json() for rule in self.rules],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Model:
        return cls(
            found["queue"],
            found["name"],
            found["schema"],
            tuple(Field.from_json(field) for field in found["fields"]),
            tuple(Rule(**rule) for rule in found["rules"]),
        )


def check_table_name(name: str, layer: str) -> str:
    if not _TABLE_NAME.fullmatch(name) or f"{layer}/{name}" in TABLES:
        taken = ", ".join(t.name for t in TABLES.values() if t.layer == layer)
        raise InvalidValueError(
            f"a table of {layer} cannot be called {name!r}",
            hint="Use up to 63 lowercase letters, digits and _, beginning with a letter. "
            f"Penstock itself has {taken}.",
            field="table",
            value=name,
        )
    return name
