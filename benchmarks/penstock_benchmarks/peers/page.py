"""docs/benchmarks.md from the results of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from penstock_benchmarks.peers.bars import AT_LEAST, bar, passes, words
from penstock_benchmarks.peers.figures import Row, Table, commits, cpu, rate, wal

TEMPLATE = Path(__file__).with_name("page.md")
Value = Callable[[Row], float | None]


# The load of other programs on all processors, in the second before the run.
QUIET = 0.2


class Page:
    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.figures = document["figures"]
        self.plan = document["plan"]
        kinds = {name: about["kind"] for name, about in document["peers"].items()}
        self.table = Table(document["rows"], kinds)
        self.order = _ours_first(kinds)

    def text(self) -> str:
        def fill(match: re.Match[str]) -> str:
            return str(getattr(self, match[1])())

        return re.sub(r"\{\{(\w+)\}\}", fill, TEMPLATE.read_text(encoding="utf-8"))

    # Words

    def run(self) -> str:
        document, machine = self.document, self.document["machine"]
        versions = document["versions"]
        gib = machine["memory_bytes"] / 2**30
        busy = machine["busy_before"] or 0.0
        disturbed = (
            f"\n\n**The machine was busy with other work** ({busy:.0%} of its processors) when "
            "this began: take the numbers for a first impression, and none of them for granted."
        )
        return (
            f"Measured {document['started_at'][:10]}, the {document['form']} form, "
            f"{document['seconds'] / 60:.0f} minutes. {machine['cpus']} processors "
            f"({machine['cpu']}), {gib:.0f} GiB. {document['server']['version'].split(',')[0]}; "
            f"Python {versions['python']}, psycopg {versions['psycopg']}."
        ) + disturbed * (busy > QUIET)

    def notes(self) -> str:
        """What is wrong with these very results, if anything is."""
        return "".join(f"\n**Note.** {note}\n" for note in self.document.get("notes", ()))

    def window(self) -> str:
        return f"{self.plan['window_seconds']:g}"

    def pairs(self) -> str:
        return str(self.plan["kept_pairs"])

    def overload_seconds(self) -> str:
        return f"{self.plan['overload_seconds']:g}"

    def rate(self) -> str:
        return f"{self.plan['rate']:g}"

    def patience(self) -> str:
        return f"{self.plan['chaos_wait_seconds']:g}"

    def usual(self) -> str:
        return str(self.plan["usual"])

    def scheduled_count(self) -> str:
        return f"{self.plan['scheduled']:,}"

    def burst_count(self) -> str:
        return f"{self.plan['burst']:,}"

    def settings(self) -> str:
        shown = ("shared_buffers", "max_wal_size", "checkpoint_timeout", "synchronous_commit")
        values = self.document["server"]["settings"]
        return ", ".join(f"`{name}` {values[name]}" for name in (*shown, "fsync", "autovacuum"))

    # Tables

    def bars(self) -> str:
        rows = []
        for name, value, how, limit in self._judged():
            word = "yes" if passes(value, how, limit) else "**no**"
            sign = "≥" if how == AT_LEAST else "≤"
            rows.append([words(name, self.figures), _number(value), f"{sign} {limit:g}", word])
        return _markdown(["", "measured", "bar", "met"], rows)

    def _judged(self) -> Iterator[tuple[str, float, str, float]]:
        for name, value in self.figures.items():
            found = bar(name, value)
            if found is not None:
                yield name, value, *found

    def met(self) -> str:
        """How many bars, and those that were not met, in words."""
        judged = list(self._judged())
        missed = [
            f"- {words(name, self.figures)}: **{_number(value)}**, the bar is {limit:g}"
            for name, value, how, limit in judged
            if not passes(value, how, limit)
        ]
        if not missed:
            return f"All {len(judged)} bars are met."
        count = len(judged) - len(missed)
        return f"Of {len(judged)} bars {count} are met. Not met:\n\n" + "\n".join(missed)

    def behind(self) -> str:
        """Every peer that is ahead of Penstock somewhere, by name."""
        found: dict[str, list[str]] = {}
        for name, ratios in self.figures.items():
            if not name.endswith("_over"):
                continue
            less_is_better = name.startswith("p99")
            for peer, ratio in ratios.items():
                if (ratio > 1) if less_is_better else (ratio < 1):
                    scenario = name.removesuffix("_over")
                    found.setdefault(peer, []).append(f"`{scenario}` {ratio:.2f}")
        if not found:
            return "No peer was ahead of Penstock's worker in any scenario."
        return "Ahead of Penstock's worker, Penstock / peer:\n\n" + "\n".join(
            f"- **{peer}**: {', '.join(where)}" for peer, where in found.items()
        )

    def peers(self) -> str:
        about = self.document["peers"]
        keys = ("kind", "version", "settings")
        rows = [[name, *(about[name][key] for key in keys)] for name in self.order]
        return _markdown(["", *keys], rows)

    def clean(self) -> str:
        return self._by_concurrency("")

    def clean_1ms(self) -> str:
        return self._by_concurrency("-1ms")

    def _by_concurrency(self, suffix: str) -> str:
        names = [f"clean-{c}{suffix}" for c in self.plan["concurrency"]]
        heads = [str(c) for c in self.plan["concurrency"]]
        return self._of(names, heads, rate, _count)

    def _of(
        self,
        scenarios: Sequence[str],
        heads: Sequence[str],
        value: Value,
        text: Callable[[float], str],
    ) -> str:
        rows = [
            [name, *(self._spread(name, scenario, value, text) for scenario in scenarios)]
            for name in self.order
        ]
        if not any(cell for row in rows for cell in row[1:]):
            return "Not part of this run."
        return _markdown(["", *heads], rows)

    def _spread(self, peer: str, scenario: str, value: Value, text: Callable[[float], str]) -> str:
        values = sorted(self.table.values(peer, scenario, value).values())
        if not values:
            failed = any("error" in row for row in self.table.rows(peer, scenario))
            return "failed" if failed else ""
        if len(values) == 1:
            return text(values[0])
        return f"{text(median(values))} ({text(values[0])} to {text(values[-1])})"

    def latency(self) -> str:
        heads = ["", "offered", "p50 ms", "p95 ms", "p99 ms", "max ms"]
        heads += ["p99, pinned by a reader", "p99, pinned by an xid"]
        rows = []
        for name in self.order:
            cells = [self._spread(name, "rate", value_of("offered"), _count)]
            cells += [
                self._spread(name, "rate", value_of(key), _number) for key in ("p50", "p95", "p99")
            ]
            cells.append(self._spread(name, "rate", value_of("max"), _number))
            cells += [
                self._spread(name, f"rate-pinned-{by}", value_of("p99"), _number)
                for by in ("reader", "xid")
            ]
            rows.append([name, *cells])
        return _markdown(heads, rows)

    def pinned(self) -> str:
        heads = ["", "unpinned", "by a reader", "kept", "unpinned", "by an xid", "kept"]
        rows = []
        for name in self.order:
            cells = [name]
            for by in ("reader", "xid"):
                kept = self.figures.get(f"kept_pinned-{by}_all", {}).get(name)
                cells.append(self._spread(name, f"unpinned-{by}", rate, _count))
                cells.append(self._spread(name, f"pinned-{by}", rate, _count))
                cells.append("" if kept is None else f"{kept:.2f}")
            rows.append(cells)
        return _markdown(heads, rows)

    def readers(self) -> str:
        return self._of(["readers"], ["messages a second"], rate, _count)

    def scheduled(self) -> str:
        rows = []
        for name in self.order:
            kept = self.figures.get("kept_scheduled_all", {}).get(name)
            loaded = self._spread(name, "scheduled-load", value_of("messages"), _count)
            rows.append(
                [
                    name,
                    loaded,
                    self._spread(name, "scheduled-load", value_of("enqueue_rate"), _count),
                    self._spread(name, "unscheduled", rate, _count),
                    self._spread(name, "scheduled", rate, _count),
                    "" if kept is None else f"{kept:.2f}",
                ]
            )
        heads = ["", "loaded", "enqueued a second", "without", "with them", "kept"]
        return _markdown(heads, rows)

    def burst(self) -> str:
        return self._wide(
            "burst",
            {
                "messages": ("loaded", _count),
                "enqueue_rate": ("enqueued a second", _count),
                "rate": ("worked off a second", _count),
                "disk_bytes": ("on disk", _bytes),
            },
        )

    def overload(self) -> str:
        return self._wide(
            "overload",
            {
                "before_rate": ("before", _count),
                "offered": ("offered", _count),
                "rate": ("kept up with", _count),
                "drain_seconds": ("seconds to work off", _number),
                "after_rate": ("after", _count),
                "recovery": ("recovery", _number),
            },
        )

    def _wide(self, scenario: str, columns: dict[str, tuple[str, Callable[[float], str]]]) -> str:
        rows = [
            [
                name,
                *(self._spread(name, scenario, value_of(key), columns[key][1]) for key in columns),
            ]
            for name in self.order
        ]
        rows = [row for row in rows if any(row[1:])]
        return _markdown(["", *(head for head, _ in columns.values())], rows)

    def costs(self) -> str:
        scenario = f"clean-{self.plan['usual']}"
        heads = ["", "WAL bytes", "commits", "database CPU µs", "worker CPU µs"]
        heads += ["dead rows at the end", "on disk at the end"]
        rows = []
        for name in self.order:
            rows.append(
                [
                    name,
                    self._spread(name, scenario, wal, _count),
                    self._spread(name, scenario, commits, _number),
                    self._spread(name, scenario, _micros(cpu), _count),
                    self._spread(name, scenario, _micros(_worker_cpu), _count),
                    self._spread(name, scenario, value_of("dead_tuples"), _count),
                    self._spread(name, scenario, value_of("disk_bytes"), _bytes),
                ]
            )
        return _markdown(heads, rows)

    def chaos(self) -> str:
        rows = []
        for what, happened in _ACTS.items():
            for name in self.order:
                for row in self.table.rows(name, what):
                    if "error" in row:
                        rows.append([happened, name, "failed", "", "", ""])
                    else:
                        silence = row.get("silence_seconds")
                        rows.append(
                            [
                                happened,
                                name,
                                str(row["lost"]),
                                str(row["doubled"]),
                                "" if silence is None else _number(silence),
                                "" if row["recovery"] is None else _number(row["recovery"]),
                            ]
                        )
        if not rows:
            return "Not part of this run."
        heads = [
            "what",
            "peer",
            "not handled in time",
            "handled again",
            "longest silence, s",
            "recovery",
        ]
        return _markdown(heads, rows)


_ACTS = {
    "kill": "worker killed",
    "restart": "database restarted",
    "terminate": "connections cut, ten a second",
}


def text(document: dict[str, Any]) -> str:
    page = Page(document)
    filled = page.text()
    return filled if filled.endswith("\n") else filled + "\n"


def _ours_first(kinds: dict[str, str]) -> list[str]:
    workers = [name for name, kind in kinds.items() if kind == "worker"]
    loops = [name for name, kind in kinds.items() if kind == "loop"]
    return [
        *sorted(workers, key=lambda name: (name != "penstock", name)),
        *sorted(loops, key=lambda name: (name != "penstock-client", name)),
    ]


def value_of(key: str) -> Value:
    return lambda row: row.get(key)


def _micros(value: Value) -> Value:
    def micros(row: Row) -> float | None:
        seconds = value(row)
        return None if seconds is None else seconds * 1e6

    return micros


def _worker_cpu(row: Row) -> float | None:
    counted = row["handled"] - row.get("early", 0) if row.get("handled") else 0
    return row["worker_cpu_seconds"] / counted if counted else None


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"


def _bytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    # A peer that did not take part has no line.
    shown = [row for row in rows if any(row[1:])]
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *shown]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
