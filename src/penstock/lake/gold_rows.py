"""Rows of gold in the driver's memory: Spark counts new rows, which are added to earlier ones.

Every column of gold is a sum of parts (counts, sums, extremes, histograms), so only new rows of
silver are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from penstock.lake import columns, gold, histogram
from penstock.lake.layout import GOLD_ERROR_DAY, LakeTable

Gold = dict[LakeTable, pa.Table]
Row = dict[str, Any]


def count_gold(events: DataFrame, tables: Iterable[LakeTable]) -> Gold:
    """Rows of gold tables, counted by Spark."""
    counted = {}
    for table in tables:
        rows = gold.TRANSFORMS[table](events).toArrow().cast(columns.arrow(table))
        counted[table] = _with_percentiles(table, rows)
    return counted


def added(table: LakeTable, before: pa.Table, new: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that change when `new` is added to `before`, and the unchanged rows."""
    key = ("day", *gold.KEYS[table])
    # Most rows of a day belong to other minutes, and are passed through.
    moment = "minute" if "minute" in key else "day"
    near = pc.is_in(before[moment], value_set=new[moment].combine_chunks())
    parts = {_key(row, key): row for row in new.to_pylist()}
    touched, same = before.filter(near), [before.filter(pc.invert(near))]
    mine = [_key(row, key) in parts for row in touched.select(list(key)).to_pylist()]
    same.append(touched.filter(pa.array([not each for each in mine], pa.bool_())))
    for row in touched.filter(pa.array(mine, pa.bool_())).to_pylist():
        parts[_key(row, key)] = _sum(table, row, parts[_key(row, key)])
    changed = pa.Table.from_pylist(list(parts.values()), columns.arrow(table))
    return _with_percentiles(table, changed), pa.concat_tables(same)


def _key(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _sum(table: LakeTable, old: Row, new: Row) -> Row:
    total = {name: _RULES.get(name, _first)(old[name], new[name]) for name in new}
    if table == GOLD_ERROR_DAY:
        total["error"] = max((row["last_at"], row["error"]) for row in (old, new))[1]
    return total


def _first(old: Any, new: Any) -> Any:
    """Columns of the key, and those that are computed afterwards."""
    return old


def _count(old: int, new: int) -> int:
    return old + new


def _seconds(old: float | None, new: float | None) -> float | None:
    """In whole microseconds, so that the order of additions has no effect."""
    if old is None or new is None:
        return new if old is None else old
    return (round(old * 1e6) + round(new * 1e6)) / 1e6


def _extreme(choose: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda old, new: choose((v for v in (old, new) if v is not None), default=None)


_COUNTED: Final = (
    *("finished", "retried", "failed_attempts", "retries", "payload_bytes"),
    *gold.STATES,
)
_RULES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(_COUNTED, _count),
    **dict.fromkeys(("work_seconds", "busy_seconds"), _seconds),
    **dict.fromkeys(("backlog_age_seconds", "payload_bytes_max", "last_at"), _extreme(max)),
    "first_at": _extreme(min),
    **{f"{name}_histogram": histogram.merged for name in gold.DURATIONS},
}


def _with_percentiles(table: LakeTable, rows: pa.Table) -> pa.Table:
    for name in gold.DURATIONS:
        if f"{name}_histogram" not in rows.column_names:
            continue
        found = [
            histogram.percentiles(text, gold.QUANTILES)
            for text in rows[f"{name}_histogram"].to_pylist()
        ]
        for place, quantile in enumerate(gold.QUANTILES):
            column = f"{name}_p{quantile}"
            values = pa.array([each[place] for each in found], pa.float64())
            rows = rows.set_column(rows.column_names.index(column), column, values)
    return rows.cast(columns.arrow(table))
