"""Silver messages -> rows of a model's table, and rows for quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from penstock.errors import QualityError
from penstock.lake import columns
from penstock.lake.layout import SILVER_MESSAGES, SILVER_QUARANTINE
from penstock.lake.models.model import FAILED_RULES, MESSAGE_COLUMNS, Model
from penstock.lake.models.payload_check import PayloadCheck
from penstock.lake.models.rules import MODEL_RULE, Rule

_CARRIED: Final = [
    name for name in columns.names(SILVER_QUARANTINE) if name not in ("rule", "reason")
]
# The largest number of messages that are named when a rule stops the refresh.
_NAMED_IDS: Final = 5


@dataclass(frozen=True, slots=True)
class Typed:
    """The rows that fit a model, and those that do not. `failed` counts rows by rule."""

    model: Model
    rows: DataFrame
    quarantined: DataFrame
    failed: dict[str, int] = field(default_factory=dict)


@contextmanager
def typed(messages: DataFrame, model: Model) -> Iterator[Typed]:
    """Checks each message once. Spark keeps the result until the block ends.

    Raises QualityError if a rule with the action `stop` is broken.
    """
    checked = _checked(messages, model).persist()
    try:
        failed = _failed_rows(checked, model)
        yield Typed(model, fitting(checked, model), unfit(checked, model), failed)
    finally:
        checked.unpersist()


def type_messages(messages: DataFrame, model: Model) -> tuple[DataFrame, DataFrame]:
    """The same without counting: for a comparison."""
    checked = _checked(messages, model)
    return fitting(checked, model), unfit(checked, model)


def fitting(checked: DataFrame, model: Model) -> DataFrame:
    rows = checked.where(~_is_unfit(model))
    counted = _broken(model, "count")
    return rows.withColumn(FAILED_RULES, counted).select(*columns.names(model.table))


def unfit(checked: DataFrame, model: Model) -> DataFrame:
    misfit = sf.col("_reason").isNotNull()
    broken = {rule.name: rule.reason for rule in _rules(model, "quarantine")}
    why = sf.array_join(_broken(model, "quarantine", broken), "; ")
    first = sf.try_element_at(_broken(model, "quarantine"), sf.lit(1))
    rule = sf.when(misfit, MODEL_RULE).otherwise(first)
    rows = checked.where(_is_unfit(model)).select(
        "_message.*",
        rule.alias("rule"),
        sf.coalesce(sf.col("_reason"), why).alias("reason"),
    )
    return rows.select(*columns.names(SILVER_QUARANTINE))


def _checked(messages: DataFrame, model: Model) -> DataFrame:
    """Every message with its fields as columns, or `_reason`."""
    known = {each.name: each.dataType for each in columns.schema(SILVER_MESSAGES)}
    schema = StructType(
        [
            StructField("message", StructType([StructField(n, known[n]) for n in _CARRIED])),
            StructField(
                "fields", StructType([StructField(f.column, f.type) for f in model.fields])
            ),
            StructField("reason", StringType()),
        ]
    )
    check = PayloadCheck(dict(model.schema), model.fields, _CARRIED)
    found = messages.select(*_CARRIED).mapInArrow(check, schema)
    return found.select(
        *(sf.col(f"message.{name}").alias(f"message_{name}") for name in MESSAGE_COLUMNS),
        *(sf.col(f"message.{name}").alias(name) for name in ("day", "queue")),
        "fields.*",
        sf.col("message").alias("_message"),
        sf.col("reason").alias("_reason"),
    )


def _failed_rows(checked: DataFrame, model: Model) -> dict[str, int]:
    """The number of rows that break each rule. Computes the checked rows."""
    misfit = sf.count_if(sf.col("_reason").isNotNull()).alias(MODEL_RULE)
    counts = [sf.count_if(_breaks(rule)).alias(rule.name) for rule in model.rules]
    ids = [
        sf.slice(
            sf.sort_array(sf.collect_set(sf.when(_breaks(rule), sf.col("message_id")))), 1, 5
        ).alias(f"{rule.name} ids")
        for rule in _rules(model, "stop")
    ]
    (found,) = checked.agg(misfit, *counts, *ids).collect()
    for rule in _rules(model, "stop"):
        if found[rule.name]:
            named = ", ".join(map(str, found[f"{rule.name} ids"][:_NAMED_IDS]))
            raise QualityError(
                f"{found[rule.name]:,} messages of queue {model.queue} break rule {rule.name} "
                f"({rule.reason}), such as {named}",
                hint="Silver and gold stay as they were. Correct the rule, or change its action "
                "from stop to quarantine.",
                queue=model.queue,
                rule=rule.name,
            )
    return {name: found[name] for name in (MODEL_RULE, *(rule.name for rule in model.rules))}


def _rules(model: Model, action: str) -> list[Rule]:
    return [rule for rule in model.rules if rule.action == action]


def _breaks(rule: Rule) -> Column:
    return sf.col("_reason").isNull() & ~rule.condition()


def _broken(model: Model, action: str, texts: Mapping[str, str] | None = None) -> Column:
    """The names of the rules with this action that a row breaks, or the texts for them."""
    found = [
        sf.when(~rule.condition(), sf.lit(texts[rule.name] if texts else rule.name))
        for rule in _rules(model, action)
    ]
    if not found:
        return sf.array().cast("array<string>")
    return sf.filter(sf.array(*found), lambda text: text.isNotNull())


def _is_unfit(model: Model) -> Column:
    return sf.col("_reason").isNotNull() | (sf.size(_broken(model, "quarantine")) > 0)
