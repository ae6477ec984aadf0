"""A gold table that a project declares: its inputs, its updates, and where it is published."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.errors import InvalidValueError
from penstock.lake.layout import LakeTable, own_gold_table

KIND: Final = "gold"
By = Literal["day", "row"]
Transform = Callable[..., DataFrame]
_COMBINE: Final[dict[str, Callable[[str], Column]]] = {
    "sum": sf.sum,
    "min": sf.min,
    "max": sf.max,
}
_PUBLISHED: Final = re.compile(r"([a-z_][a-z0-9_]{0,62})\.([a-z_][a-z0-9_]{0,62})")
_OURS: Final = frozenset({"penstock", "mdb_queue", "pgmq", "information_schema"})


def published_name(name: str) -> tuple[str, str]:
    """The schema and the table of a name such as `analytics.revenue`."""
    found = _PUBLISHED.fullmatch(name)
    if not found or found[1] in _OURS or found[1].startswith("pg_"):
        raise InvalidValueError(
            f"a gold table cannot be published as {name!r}",
            hint="Name one of your schemas and a table, such as analytics.revenue.",
            field="publish",
            value=name,
        )
    return found[1], found[2]


@dataclass(frozen=True, slots=True)
class OwnGold:
    """`schema` is Spark's JSON, and `source` the checksum of the transform's text."""

    name: str
    reads: tuple[str, ...]
    by: By
    combine: Mapping[str, str]
    publish: str | None
    schema: str
    source: str

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise self._refused(f"by={self.by!r}", "Allowed: day, row.")
        for column, how in self.combine.items():
            if how not in _COMBINE:
                raise self._refused(
                    f"combine={{{column!r}: {how!r}}}", f"Allowed: {', '.join(_COMBINE)}."
                )
        if (self.combine or self.by == "row") and len(self.reads) > 1:
            raise self._refused(
                "several tables to read",
                "A table that grows by new rows reads one table. Use by='day' without combine.",
            )

    def _refused(self, what: str, hint: str) -> InvalidValueError:
        return InvalidValueError(f"gold table {self.name} has {what}", hint=hint, field="gold")

    @property
    def table(self) -> LakeTable:
        return own_gold_table(self.name, self.schema)

    @property
    def grows(self) -> bool:
        """Whether new rows of its input are sufficient to update it."""
        return self.by == "row" or bool(self.combine)

    def combined(self, rows: DataFrame) -> DataFrame:
        """Adds up rows with the same values in the other columns."""
        if not self.combine:
            return rows
        key = [name for name in rows.columns if name not in self.combine]
        parts = [_COMBINE[how](name).alias(name) for name, how in self.combine.items()]
        kinds = {field.name: field.dataType for field in rows.schema}
        summed = rows.groupBy(*key).agg(*parts)
        return summed.select(*(sf.col(name).cast(kinds[name]).alias(name) for name in rows.columns))

    def as_json(self) -> dict[str, Any]:
        # A list, as JSON has it: a declaration is compared with the one that the ledger has.
        return {
            **asdict(self),
            "kind": KIND,
            "reads": list(self.reads),
            "combine": {**self.combine},
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> OwnGold:
        fields = {name: found[name] for name in cls.__slots__}
        return cls(**{**fields, "reads": tuple(found["reads"])})
