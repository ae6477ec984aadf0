"""What Penstock claims, and whether a run bears it out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

AT_LEAST, AT_MOST = "at least", "at most"

# figure prefix -> how, bar
BARS = (
    ("rate_clean-", "_over_best", AT_LEAST, 1.2),
    ("loop_clean-", "", AT_LEAST, 1.2),
    ("rate_pinned-", "_over_best", AT_LEAST, 1.5),
    ("rate_scheduled", "_over_best", AT_LEAST, 1.5),
    ("kept_pinned-reader", "", AT_LEAST, 0.95),
    ("kept_pinned-xid", "", AT_LEAST, 0.95),
    ("kept_scheduled", "", AT_LEAST, 0.95),
    ("p99_rate", "_over_best", AT_MOST, 1.0),
    ("wal_bytes_clean-", "_penstock", AT_MOST, 750),
    ("wal_bytes_clean-", "_over_best", AT_MOST, 1.0),
    ("db_cpu_seconds_clean-", "_over_best", AT_MOST, 1.0),
    ("recovery_", "", AT_LEAST, 0.98),
    ("lost_", "", AT_MOST, 0),
)


def bar(figure: str, value: Any) -> tuple[str, float] | None:
    """The bar that a figure has to pass, if there is one."""
    if not isinstance(value, int | float) or "-1ms" in figure:
        return None
    for prefix, suffix, how, limit in BARS:
        if figure.startswith(prefix) and figure.endswith(suffix):
            return how, limit
    return None


def passes(value: float, how: str, limit: float) -> bool:
    return value >= limit if how == AT_LEAST else value <= limit


def verdicts(figures: dict[str, Any]) -> Iterator[str]:
    for name, value in figures.items():
        found = bar(name, value)
        if found is not None:
            how, limit = found
            word = "yes" if passes(value, how, limit) else "NO"
            yield f"{word:<4} {name:<44} {value:>9.3f}  {how} {limit}"
