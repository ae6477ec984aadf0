"""Histograms of durations, as text such as `696:12 701:3`: buckets and their counts.

Buckets grow by 2 %, so a percentile is within 1 % of the true value. The sum of two histograms is
the histogram of all values, in any order. So gold adds new rows without reading old ones, and a
recount gives exactly the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

_GROWTH: Final = 1.02


def bucket(seconds: Column) -> Column:
    """The bucket of a duration: 0 for zero, otherwise by the logarithm of its microseconds."""
    micros = sf.round(seconds * 1e6)
    return sf.when(micros <= 0, 0).otherwise(
        (sf.ceil(sf.ln(micros) / math.log(_GROWTH)) + 1).cast("int")
    )


def value(number: int) -> float:
    """The duration in seconds that represents a bucket."""
    if number == 0:
        return 0.0
    return 2 * _GROWTH ** (number - 1) / (_GROWTH + 1) / 1e6


def histograms(rows: DataFrame, key: Sequence[str], durations: Sequence[str]) -> DataFrame:
    """For each key, a column `<duration>_histogram` for each duration."""
    each = [
        sf.struct(sf.lit(name).alias("duration"), bucket(sf.col(name)).alias("bucket"))
        for name in durations
    ]
    counts = (
        rows.select(*key, sf.explode(sf.array(*each)).alias("one"))
        .select(*key, "one.*")
        .where(sf.col("bucket").isNotNull())
        .groupBy(*key, "duration", "bucket")
        .agg(sf.count("*").alias("count"))
    )
    return counts.groupBy(*key).agg(*(_text(name) for name in durations))


def _text(duration: str) -> Column:
    pair = sf.when(sf.col("duration") == duration, sf.struct("bucket", "count"))
    words = sf.transform(
        sf.sort_array(sf.collect_list(pair)),
        lambda each: sf.concat_ws(":", each["bucket"], each["count"]),
    )
    return sf.concat_ws(" ", words).alias(f"{duration}_histogram")


def merged(one: str | None, other: str | None) -> str:
    counts = Counter(dict(_pairs(one)))
    counts.update(dict(_pairs(other)))
    return " ".join(f"{number}:{counts[number]}" for number in sorted(counts))


def percentiles(histogram: str | None, ranks: Iterable[float]) -> list[float | None]:
    """The percentiles of the values, or None if there are none."""
    pairs = list(_pairs(histogram))
    total = sum(count for _, count in pairs)
    if not total:
        return [None for _ in ranks]
    return [value(_reaching(pairs, math.ceil(total * rank / 100))) for rank in ranks]


def _reaching(pairs: Sequence[tuple[int, int]], rank: int) -> int:
    passed = 0
    for number, count in pairs:
        passed += count
        if passed >= rank:
            return number
    return pairs[-1][0]


def _pairs(histogram: str | None) -> Iterable[tuple[int, int]]:
    for word in (histogram or "").split():
        number, _, count = word.partition(":")
        yield int(number), int(count)
