"""What a benchmark found: one JSON document, and the same as a table for people."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

Figures = dict[str, float | None]
_SAID = ("penstock", "python", "psycopg", "psycopg_implementation", "libpq")


@dataclass(frozen=True)
class Row:
    """One line of the table, its numbers already in words."""

    what: str
    penstock: str
    plain: str
    ratio: str = ""


@dataclass
class Findings:
    """What a benchmark hands in."""

    method: str
    figures: Figures
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    samples: dict[str, Any] = field(default_factory=dict)
    headings: tuple[str, str, str] = ("Penstock", "plain table", "Penstock / plain")


@dataclass(frozen=True)
class Surroundings:
    """Which benchmark it was, when, how and on what."""

    bench: str
    started_at: str
    finished_at: str
    options: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, str]
    server: dict[str, Any]


def write_json(stream: TextIO, surroundings: Surroundings, findings: Findings) -> None:
    figures = {name: rounded(value) for name, value in findings.figures.items()}
    document = {**asdict(surroundings), **asdict(findings), "figures": figures}
    json.dump(document, stream, indent=2)
    stream.write("\n")


def show(console: Console, surroundings: Surroundings, findings: Findings) -> None:
    _show_surroundings(console, surroundings)
    table = Table(title=f"penstock bench {surroundings.bench}", title_justify="left")
    table.add_column("")
    for heading in findings.headings:
        table.add_column(heading, justify="right")
    for row in findings.rows:
        table.add_row(row.what, row.penstock, row.plain, row.ratio)
    console.print(table)
    _show_figures(console, findings.figures)
    console.print(Text(findings.method, style="dim"))
    for note in findings.notes:
        console.print(Text(f"Note: {note}", style="yellow"))


def _show_surroundings(console: Console, surroundings: Surroundings) -> None:
    machine, versions = surroundings.machine, surroundings.versions
    memory = machine["memory_bytes"] / 2**30
    lines = [
        f"{machine['cpu']}, {machine['cpus']} cpus, {memory:.0f} GiB, {machine['system']}, "
        f"load {machine['load_average'][0]} at the start",
        surroundings.server["version"],
        f"Penstock {versions['penstock']}, Python {versions['python']}, "
        f"psycopg {versions['psycopg']} ({versions['psycopg_implementation']})"
        + "".join(f", {name} {version}" for name, version in versions.items() if name not in _SAID),
        ", ".join(f"{name} {value}" for name, value in surroundings.server["settings"].items()),
        ", ".join(f"{name} {value}" for name, value in surroundings.options.items() if value),
    ]
    for line in lines:
        console.print(Text(line, style="dim"))


def _show_figures(console: Console, figures: Figures) -> None:
    table = Table(title="figures", title_justify="left", show_header=False, box=None)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in figures.items():
        table.add_row(name, ratio_text(value))
    console.print(table)


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def ratio_text(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def rate_text(value: float) -> str:
    return f"{value:,.0f}/s"


def bytes_text(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
