"""SQL over the lake: its tables as views, read in their current state."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, Row

from penstock.errors import InvalidValueError
from penstock.lake.lake import Lake
from penstock.spark.error_messages import refusal


def query(lake: Lake, text: str) -> DataFrame:
    """The result of a SELECT. Other statements are refused, because the views are for reading."""
    text = text.strip().rstrip(";")
    make_views(lake, text)
    try:
        # As a part of a larger query, so that other statements are refused before they run.
        lake.spark.sql(f"SELECT * FROM (\n{text}\n)").schema  # noqa: B018
        return lake.spark.sql(text)
    except (AnalysisException, ParseException) as error:
        raise InvalidValueError(
            f"the query cannot be run: {refusal(error)}",
            hint=f"Write a SELECT over: {', '.join(table.view for table in lake.tables())}.",
            field="query",
        ) from error


def rows_of(lake: Lake, text: str, limit: int) -> tuple[list[str], list[list[Any]]]:
    """The names of the columns, and the first rows.

    Reads again if a compaction has removed files in the meantime.
    """
    for last in (False, True):
        try:
            frame = query(lake, text).limit(limit)
            return frame.columns, [[_plain(value) for value in row] for row in frame.collect()]
        except Exception as error:
            if last or "FILE_NOT_EXIST" not in str(error):
                raise
    raise AssertionError


def _plain(value: Any) -> Any:
    """Spark returns times in the machine's zone without a zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, bytearray):
        return bytes(value)
    return value.asDict(recursive=True) if isinstance(value, Row) else value


def make_views(lake: Lake, text: str) -> None:
    """The tables that a query names."""
    for table in lake.tables():
        if re.search(rf"\b{table.view}\b", text, re.IGNORECASE):
            lake.frame(table).createOrReplaceTempView(table.view)
