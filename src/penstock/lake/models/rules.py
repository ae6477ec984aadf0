"""Quality rules: conditions that every row of a typed table should meet.

A row meets a condition that is null, as in a CHECK constraint of SQL.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType

from penstock.errors import InvalidValueError

Action = Literal["count", "quarantine", "stop"]
# The rule in the quarantine table for a message that does not fit its model.
MODEL_RULE: Final = "model"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; made by `not_null`, `in_range`, `matches` and `expression`.

    What happens to a row that breaks it: `count` keeps the row and notes the rule in its
    `message_failed_rules`, `quarantine` moves it to the quarantine table, and `stop` ends the
    refresh with an error before anything is written.
    """

    name: str
    action: Action
    kind: str
    column: str | None = None
    low: Any = None
    high: Any = None
    text: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name == MODEL_RULE:
            raise InvalidValueError(
                f"{self.name!r} is not a name for a rule",
                hint="Use up to 63 lowercase letters, digits and _, beginning with a letter, "
                f"other than {MODEL_RULE!r}.",
                field="rule",
            )
        if self.action not in get_args(Action):
            raise InvalidValueError(
                f"rule {self.name} has the action {self.action!r}",
                hint=f"Allowed: {', '.join(get_args(Action))}.",
                field="action",
                value=self.action,
            )

    def condition(self) -> Column:
        """True for the rows that meet the rule."""
        column, text = self.column or "", self.text or ""
        if self.kind == "not_null":
            return sf.col(column).isNotNull()
        if self.kind == "range":
            met = self._in_range(sf.col(column))
        elif self.kind == "matches":
            met = sf.col(column).rlike(text)
        else:
            met = sf.expr(text).cast("boolean")
        return sf.coalesce(met, sf.lit(True))

    def _in_range(self, column: Column) -> Column:
        met = sf.lit(True)
        if self.low is not None:
            met = met & (column >= sf.lit(self.low))
        if self.high is not None:
            met = met & (column <= sf.lit(self.high))
        return met

    def constants(self, rows: DataFrame) -> list[Column]:
        """Expressions that fail if the rule could not be evaluated for any row."""
        if self.kind == "matches":
            return [sf.lit("").rlike(self.text or "")]
        if self.kind != "range":
            return []
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        kind = rows.select(self.column or "").schema[0].dataType
        if isinstance(kind, StringType) and not all(isinstance(each, str) for each in bounds):
            raise InvalidValueError(
                f"rule {self.name} compares text with a number",
                hint=f"Declare {self.column} as a number, or give the range as text.",
                field="rules",
            )
        return [sf.lit(bound).cast(kind) for bound in bounds if isinstance(bound, str)]

    @property
    def reason(self) -> str:
        """The reason why a row is in quarantine."""
        if self.kind == "not_null":
            return f"{self.column} is null"
        if self.kind == "range":
            low = "" if self.low is None else f" from {self.low}"
            high = "" if self.high is None else f" to {self.high}"
            return f"{self.column} is not in the range{low}{high}"
        if self.kind == "matches":
            return f"{self.column} does not match {self.text}"
        return f"not {self.text}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def not_null(column: str, action: Action = "quarantine", *, name: str | None = None) -> Rule:
    """The column has a value."""
    return Rule(name or _named(column, "not_null"), action, "not_null", column)


def in_range(
    column: str,
    low: int | float | str | None = None,
    high: int | float | str | None = None,
    action: Action = "quarantine",
    *,
    name: str | None = None,
) -> Rule:
    """The column is at least `low` and at most `high`. Dates and times are given as text."""
    if low is None and high is None:
        raise InvalidValueError(
            f"the range of {column} has no end",
            hint="Give `low`, `high` or both.",
            field="rule",
        )
    return Rule(name or _named(column, "range"), action, "range", column, low, high)


def matches(
    column: str, pattern: str, action: Action = "quarantine", *, name: str | None = None
) -> Rule:
    """A regular expression (Java's) is found in the column. `^` and `$` match its ends."""
    chosen = name or _named(column, "matches")
    return Rule(chosen, action, "matches", column, text=pattern)


def expression(name: str, sql: str, action: Action = "quarantine") -> Rule:
    """A condition in Spark SQL over the columns of the table."""
    return Rule(name, action, "expression", text=sql)


def _named(column: str, ending: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", f"{column}_{ending}".lower())
