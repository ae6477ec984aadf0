"""The pictures of docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

mpl.use("svg")
# The same results give the same file.
mpl.rcParams["svg.hashsalt"] = "penstock"
mpl.rcParams["svg.fonttype"] = "none"

from matplotlib import pyplot as plt  # noqa: E402

from penstock_benchmarks.peers.figures import rate, wal  # noqa: E402
from penstock_benchmarks.peers.page import Page, value_of  # noqa: E402

OURS = "#0b6bcb"
OURS_LIGHT = "#5ba3ea"
OTHERS = ["#b0b7c3", "#8c95a4", "#6b7484", "#4d5665", "#343b47"]


def draw(document: dict[str, Any], directory: Path) -> None:
    page = Page(document)
    directory.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, Callable[[Page], Any]] = {
        "clean": _clean,
        "rate": _rate,
        "pinned": _pinned,
        "costs": _costs,
    }
    for name, picture in pictures.items():
        figure = picture(page)
        figure.savefig(directory / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
        plt.close(figure)


def _clean(page: Page) -> Any:
    """One group of bars for each concurrency, with the spread of the rounds."""
    figure, axes = plt.subplots(figsize=(9, 4))
    levels = page.plan["concurrency"]
    width = 0.85 / len(page.order)
    for index, name in enumerate(page.order):
        middles, below, above = [], [], []
        for level in levels:
            values = list(page.table.values(name, f"clean-{level}", rate).values()) or [0.0]
            middles.append(median(values))
            below.append(median(values) - min(values))
            above.append(max(values) - median(values))
        places = [place + index * width for place in range(len(levels))]
        axes.bar(
            places, middles, width, label=name, color=_of_many(name, index), yerr=[below, above]
        )
    axes.set_yscale("log")
    axes.set_xticks([place + 0.4 for place in range(len(levels))], [str(each) for each in levels])
    axes.set_xlabel("concurrency")
    axes.set_ylabel("messages a second")
    axes.legend(fontsize=8, ncols=5, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    return figure


def _rate(page: Page) -> Any:
    """p50 and p99 next to each other, on a logarithmic scale."""
    figure, axes = plt.subplots(figsize=(9, 3.5))
    names = [name for name in page.order if page.table.rows(name, "rate")]
    for offset, key in ((0, "p50"), (0.4, "p99")):
        values = [page.table.median(name, "rate", value_of(key)) for name in names]
        places = [place + offset for place in range(len(names))]
        colors = [_color(name, 0 if key == "p50" else 3) for name in names]
        axes.bar(places, [value or 0 for value in values], 0.38, color=colors, label=key)
    axes.set_yscale("log")
    _names(axes, names, 0.2)
    axes.set_ylabel(f"pickup p50, p99 in ms at {page.plan['rate']:g} a second")
    return figure


def _pinned(page: Page) -> Any:
    figure, axes = plt.subplots(figsize=(9, 3.5))
    names = [name for name in page.order if page.table.rows(name, "pinned-xid")]
    for offset, scenario in ((0, "unpinned-xid"), (0.4, "pinned-xid")):
        values = [page.table.median(name, scenario, rate) or 0 for name in names]
        places = [place + offset for place in range(len(names))]
        colors = [_color(name, 0 if offset == 0 else 3) for name in names]
        axes.bar(places, values, 0.38, color=colors)
    _names(axes, names, 0.2)
    axes.set_yscale("log")
    axes.set_ylabel("messages a second: unpinned, pinned")
    return figure


def _costs(page: Page) -> Any:
    """WAL of enqueue, and on top of it that of work."""
    figure, axes = plt.subplots(figsize=(9, 3.5))
    scenario = f"clean-{page.plan['usual']}"

    def part(key: str) -> list[float]:
        def value(row: dict[str, Any]) -> float | None:
            early = row.get("early", 0) if key == "work" else 0
            return row[key]["wal_bytes"] / (row["messages"] - early) if wal(row) else None

        return [page.table.median(name, scenario, value) or 0 for name in page.order]

    enqueue, work = part("enqueue"), part("work")
    places = list(range(len(page.order)))
    axes.bar(places, enqueue, 0.7, color=[_color(name, 0) for name in page.order])
    axes.bar(places, work, 0.7, bottom=enqueue, color=[_color(name, 3) for name in page.order])
    _names(axes, page.order, 0)
    axes.set_ylabel("WAL bytes of a message: enqueue, work")
    return figure


def _names(axes: Any, names: list[str], shift: float) -> None:
    places = [place + shift for place in range(len(names))]
    axes.set_xticks(places, names, rotation=30, ha="right", fontsize=8)


def _color(name: str, index: int) -> str:
    if name.startswith("penstock"):
        return OURS if index == 0 else OURS_LIGHT
    return OTHERS[index % len(OTHERS)]


def _of_many(name: str, index: int) -> str:
    return _color(name, 0 if name == "penstock" else index)
