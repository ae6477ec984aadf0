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


_SCENARIOS = {
    "pinned-reader": "while a reader holds the horizon",
    "pinned-xid": "while a transaction holds the horizon",
    "scheduled": "with the scheduled messages",
    "kill": "when the worker is killed",
    "restart": "when the database is restarted",
    "terminate": "when connections are cut in a stream",
    "overload": "after an overload of 50 %",
    "anywhere": "in any window of the run",
    "rate": "",
    "rate-pinned-reader": "while a reader holds the horizon",
    "rate-pinned-xid": "while a transaction holds the horizon",
}
# prefix, suffix of a figure -> what it says, around the words of its scenario
_WORDS = (
    ("rate_", "_over_best", "completions a second {}: Penstock's worker / {}"),
    ("loop_", "_over_pgmq", "bare loop {}: Penstock's client / PGMQ"),
    ("loop_", "_over_plain-table-by-id", "bare loop {}: Penstock's client / the plain table by id"),
    ("loop_", "_over_plain-table", "bare loop {}: Penstock's client / the plain table"),
    ("kept_", "", "completions a second {}: Penstock / itself without"),
    ("p99_", "_over_best", "pickup p99 at the fixed rate {}: Penstock / {}"),
    ("wal_bytes_", "_penstock", "WAL bytes of a message {}"),
    ("wal_bytes_", "_over_best", "WAL bytes of a message {}: Penstock / the best of all others"),
    ("db_cpu_seconds_", "_over_best", "database CPU of a message {}: Penstock / the best other"),
    ("recovery_", "", "rate {}, at the end / before"),
    ("lost_", "", "messages lost {}"),
)


def words(figure: str, figures: dict[str, Any]) -> str:
    """A figure that has a bar, in words."""
    for prefix, suffix, text in _WORDS:
        if figure.startswith(prefix) and figure.endswith(suffix):
            scenario = figure.removeprefix(prefix).removesuffix(suffix)
            if scenario.startswith("clean-"):
                where = f"at concurrency {scenario.removeprefix('clean-')}"
            else:
                where = _SCENARIOS[scenario]
            best = figures.get(f"{prefix}{scenario}_best", "the best peer")
            return " ".join(text.format(where, best).replace(" :", ":").split())
    return figure


def passes(value: float, how: str, limit: float) -> bool:
    return value >= limit if how == AT_LEAST else value <= limit


def verdicts(figures: dict[str, Any]) -> Iterator[str]:
    for name, value in figures.items():
        found = bar(name, value)
        if found is not None:
            how, limit = found
            word = "yes" if passes(value, how, limit) else "NO"
            yield f"{word:<4} {name:<44} {value:>9.3f}  {how} {limit}"
