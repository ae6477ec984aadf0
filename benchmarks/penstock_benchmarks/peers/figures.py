"""The numbers that the whole is about: ratios between Penstock and the others, and counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

Row = dict[str, Any]
Figures = dict[str, Any]

OURS = "penstock"
OUR_LOOP = "penstock-client"
LOOPS = ("pgmq", "plain-table", "plain-table-by-id")
_PACED_BY_ITSELF = ("readers", "scheduled", "burst")


class Table:
    """Rows by peer and scenario."""

    def __init__(self, rows: Iterable[Row], kinds: dict[str, str]) -> None:
        self._rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
        self.kinds = kinds
        for row in rows:
            self._rows[row["peer"], row["scenario"]].append(row)
        self.scenarios = list(dict.fromkeys(scenario for _, scenario in self._rows))

    def rows(self, peer: str, scenario: str) -> list[Row]:
        return self._rows.get((peer, scenario), [])

    def values(
        self, peer: str, scenario: str, value: Callable[[Row], float | None]
    ) -> dict[int, float]:
        """By round; rows that failed or have no such value are left out."""
        found = {}
        for row in self.rows(peer, scenario):
            number = value(row) if "error" not in row else None
            if number is not None:
                found[row["round"]] = number
        return found

    def median(
        self, peer: str, scenario: str, value: Callable[[Row], float | None]
    ) -> float | None:
        values = self.values(peer, scenario, value)
        return median(values.values()) if values else None

    @property
    def worker_peers(self) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind == "worker" and name != OURS]


def rate(row: Row) -> float | None:
    return row.get("rate")


def p99(row: Row) -> float | None:
    """Of a run that reached its rate: who enqueues less than asked has it easier."""
    return row.get("p99") if row["offered"] >= 0.9 * row["wanted"] else None


def per_message(key: str) -> Callable[[Row], float | None]:
    """Of a drained window: what enqueue and work together took for each message.

    What was handled before the worker's start was over is not counted, nor is what that cost.
    """

    def value(row: Row) -> float | None:
        if row.get("handled") != row.get("messages") or not row.get("messages"):
            return None
        enqueue, work = row["enqueue"][key], row["work"][key]
        counted = row["messages"] - row.get("early", 0)
        if enqueue is None or work is None or counted < 0.7 * row["messages"]:
            return None
        return float(enqueue / row["messages"] + work / counted)

    return value


wal = per_message("wal_bytes")
cpu = per_message("cpu_seconds")
commits = per_message("transactions")


def figures(table: Table) -> Figures:
    found: Figures = {}
    for scenario in table.scenarios:
        if scenario.startswith(("clean-", "pinned-")) or scenario in _PACED_BY_ITSELF:
            found |= _against_workers(table, scenario, rate, "rate", best=max)
            found |= _against_loops(table, scenario)
        if scenario.startswith("rate"):
            found |= _against_workers(table, scenario, p99, "p99", best=min)
    for by in ("reader", "xid"):
        found |= _against_self(table, f"pinned-{by}", f"unpinned-{by}")
    found |= _against_self(table, "scheduled", "unscheduled")
    found |= _costs(table)
    found |= _survival(table)
    return found


def _against_workers(
    table: Table,
    scenario: str,
    value: Callable[[Row], float | None],
    what: str,
    best: Callable[..., Any],
) -> Figures:
    """Ours over the best of the others, in ratios of the same round."""
    ours = table.values(OURS, scenario, value)
    ratios = {}
    for peer in table.kinds:
        theirs = table.values(peer, scenario, value)
        pairs = [ours[n] / theirs[n] for n in ours if theirs.get(n)]
        if pairs and peer not in (OURS, OUR_LOOP):
            ratios[peer] = median(pairs)
    workers = {peer: ratio for peer, ratio in ratios.items() if peer in table.worker_peers}
    if not workers:
        return {}
    # The best peer is the one that we are least ahead of. Loops are shown in addition.
    nearest = (min if best is max else max)(workers, key=lambda peer: workers[peer])
    key = f"{what}_{scenario}"
    return {
        f"{key}_over_best": ratios[nearest],
        f"{key}_best": nearest,
        f"{key}_over": ratios,
    }


def _against_loops(table: Table, scenario: str) -> Figures:
    ours = table.values(OUR_LOOP, scenario, rate)
    found: Figures = {}
    for peer in LOOPS:
        theirs = table.values(peer, scenario, rate)
        pairs = [ours[n] / theirs[n] for n in ours if theirs.get(n)]
        if pairs:
            found[f"loop_{scenario}_over_{peer}"] = median(pairs)
    return found


def _against_self(table: Table, scenario: str, usual: str) -> Figures:
    """By the medians of each peer, or by pairs of windows if there are any."""
    found = {}
    for name in table.kinds:
        left, right = table.median(name, scenario, rate), table.median(name, usual, rate)
        if left and right:
            found[name] = left / right
    if not found:
        return {}
    apart = table.values(OURS, f"pair-{scenario}", rate)
    usually = table.values(OURS, f"pair-{usual}", rate)
    pairs = [apart[n] / usually[n] for n in apart if usually.get(n)]
    kept = median(pairs) if pairs else found.get(OURS)
    return {f"kept_{scenario}": kept, f"kept_{scenario}_all": found}


def _costs(table: Table) -> Figures:
    """WAL, processor time and commits of a message, in the clean windows of 16 and more."""
    found: Figures = {}
    scenarios = [s for s in table.scenarios if s in ("clean-16", "clean-64", "clean-256")]
    for name, value in (("wal_bytes", wal), ("db_cpu_seconds", cpu), ("commits", commits)):
        for scenario in scenarios:
            costs = {
                peer: cost
                for peer in table.kinds
                if (cost := table.median(peer, scenario, value)) is not None
            }
            key = f"{name}_{scenario}"
            found[key] = costs
            # Here the ones without a worker count too: a loop has no more to write than a worker.
            rivals = [cost for peer, cost in costs.items() if peer not in (OURS, OUR_LOOP)]
            if OURS in costs:
                found[f"{key}_{OURS}"] = costs[OURS]
            if OURS in costs and rivals and min(rivals) > 0:
                found[f"{key}_over_best"] = costs[OURS] / min(rivals)
    return found


def _survival(table: Table) -> Figures:
    found: Figures = {}
    for scenario in ("kill", "restart", "terminate", "overload"):
        for key in ("lost", "doubled", "recovery"):
            values = {
                peer: row.get(key)
                for peer in table.kinds
                for row in table.rows(peer, scenario)
                if "error" not in row
            }
            if values:
                found[f"{key}_{scenario}"] = values.get(OURS)
                found[f"{key}_{scenario}_all"] = values
    lost = [row["lost"] for row in _all(table) if row.get("lost") and row["peer"] == OURS]
    found["lost_anywhere"] = sum(lost)
    return found


def _all(table: Table) -> Iterable[Row]:
    for scenario in table.scenarios:
        for peer in table.kinds:
            yield from table.rows(peer, scenario)
