"""`bench against`: one benchmark of this checkout and of another revision, in turns.

A run of a side is a separate process: `python -m penstock.cli bench ...` with PYTHONPATH set to the
sources of that side. So each side runs its own engine, client and benchmark.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, TextIO

import psycopg
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock_benchmarks import machine
from penstock_benchmarks.comparison import Comparison
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.progress import progress
from penstock_benchmarks.report import ratio_text
from penstock_benchmarks.tcp_server import SETTINGS, tcp_server

Values = Mapping[str, float | None]

PEERS = "peers"
"""The short form of `make bench-peers`, with Penstock alone. It starts its own PostgreSQL."""

CHECKOUT = Path(__file__).resolve().parents[2]
# `commit` opens more than a hundred connections.
_SERVER = SETTINGS | {"max_connections": "200"}
_RATE = re.compile(r"(?P<number>[\d,]+(?:\.\d+)?)(?P<unit>/s| ms)")
_ERROR_LINES = 15
_METHOD = (
    "new and old are medians of all rounds. new / old is the median of the ratios of neighbouring "
    "runs. [/s] and [ms] are rates and times of Penstock from the table of the benchmark. The "
    "other rows are its figures."
)


@dataclass(frozen=True)
class Side:
    """The sources of one revision, and the Python that runs them."""

    name: str
    sources: Path
    python: Path

    @property
    def environment(self) -> dict[str, str]:
        folders = [self.sources / "src", self.sources / "benchmarks"]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}

    def check(self) -> None:
        """Refuses a side that would run the other side's sources."""
        code = "import penstock, penstock_benchmarks as b; print(penstock.__file__, b.__file__)"
        done = self._python("-c", code)
        if done.returncode != 0:
            raise BenchError(
                f"the sources of {self.name} cannot be imported: {_last_line(done.stderr)}",
                hint="If they need other dependencies, install those in an environment and name "
                "its Python with --python.",
            )
        strangers = [f for f in done.stdout.split() if not Path(f).is_relative_to(self.sources)]
        if strangers:
            raise BenchError(f"{self.name} imports {strangers[0]}, which is not in its sources")

    def measure(self, dsn: str, bench: str, arguments: Sequence[str]) -> dict[str, Any]:
        """One run of the benchmark: its JSON document."""
        with tempfile.TemporaryDirectory(prefix="penstock-against-") as place:
            found = Path(place) / "found.json"
            command = ["penstock.cli", "bench", bench]
            if bench == PEERS:
                command = ["penstock_benchmarks.peers", "run", "--form=short", "--peer=penstock"]
            done = self._python("-m", *command, *arguments, "--json", str(found), dsn=dsn)
            if done.returncode != 0 or not found.exists():
                last = "\n".join(done.stderr.strip().splitlines()[-_ERROR_LINES:])
                raise BenchError(f"`penstock bench {bench}` of {self.name} failed:\n{last}")
            document: dict[str, Any] = json.loads(found.read_text("utf-8"))
            return document

    def _python(self, *arguments: str, dsn: str = "") -> subprocess.CompletedProcess[str]:
        environment = self.environment | ({"PENSTOCK_DSN": dsn} if dsn else {})
        return subprocess.run(
            [str(self.python), *arguments],
            env=environment,
            cwd=self.sources,
            capture_output=True,
            text=True,
            check=False,
        )


@dataclass(frozen=True)
class Turns:
    """One figure in all runs: `new` and `old` are medians, `ratio` is new / old."""

    new: float
    old: float
    ratio: float | None
    ratios: list[float]


def run(
    revision: str,
    bench: str,
    arguments: Sequence[str],
    *,
    rounds: int,
    dsn: str | None,
    python: Path | None,
    json_file: TextIO | None,
) -> None:
    started_at = machine.now()
    with worktree(revision) as (commit, sources):
        new = Side("this checkout", CHECKOUT, Path(sys.executable))
        old = Side(f"revision {commit[:12]}", sources, python or Path(sys.executable))
        for side in (new, old):
            side.check()
        own = dsn is None and bench != PEERS
        with tcp_server(_SERVER) if own else nullcontext(dsn) as server:
            pairs = _turns(server, new, old, bench, arguments, rounds)
    found = compare(pairs)
    show(Console(stderr=json_file is not None and json_file.name == "-"), bench, old, found)
    if json_file is not None:
        document = {
            "bench": bench,
            "arguments": list(arguments),
            "rounds": rounds,
            "new": _git("describe", "--always", "--dirty", "--abbrev=12"),
            "old": commit,
            "started_at": started_at,
            "finished_at": machine.now(),
            "machine": machine.machine(),
            "figures": {name: asdict(turns) for name, turns in found.items()},
        }
        json.dump(document, json_file, indent=2)
        json_file.write("\n")


def _turns(
    server: str | None, new: Side, old: Side, bench: str, arguments: Sequence[str], rounds: int
) -> list[tuple[Values, Values]]:
    """The values of (new, old) in each round. The sides run in the order A B B A."""
    pairs: list[tuple[Values, Values]] = []
    with progress() as bar:
        bar.plan(2 * rounds)
        for number in range(rounds):
            values = {}
            for side in (new, old) if number % 2 == 0 else (old, new):
                bar.say(f"{bench}: {side.name}, round {number + 1} of {rounds}")
                with _database(server) if server else nullcontext("") as dsn:
                    values[side.name] = numbers(side.measure(dsn, bench, arguments))
                bar.step()
            pairs.append((values[new.name], values[old.name]))
    return pairs


def numbers(document: Mapping[str, Any]) -> dict[str, float | None]:
    """The figures of a run, and the rates and times of Penstock in the rows of its table."""
    if document.get("bench") == PEERS:
        return _numbers_of_peers(document)
    found: dict[str, float | None] = dict(document["figures"])
    for row in document["rows"]:
        match = _RATE.fullmatch(row["penstock"])
        if match:
            name = f"{row['what'].strip()} [{match['unit'].strip()}]"
            found.setdefault(name, float(match["number"].replace(",", "")))
    return found


def _numbers_of_peers(document: Mapping[str, Any]) -> dict[str, float | None]:
    """The figures that are one number, and the rates and times of each scenario."""
    found = {n: v for n, v in document["figures"].items() if not isinstance(v, Mapping)}
    units = {"rate": "/s", "p50": "ms", "p99": "ms"}
    values: dict[str, list[float]] = {}
    for row in document["rows"]:
        for measured, unit in units.items():
            if row.get(measured) is not None:
                name = f"{row['scenario']} {measured} [{unit}]"
                values.setdefault(name, []).append(row[measured])
    return found | {name: median(each) for name, each in values.items()}


def compare(pairs: Sequence[tuple[Values, Values]]) -> dict[str, Turns]:
    """Every value that both sides have, by its name."""
    names = [name for name in pairs[0][0] if name in pairs[0][1]]
    found = {}
    for name in names:
        both = [
            (ours, theirs)
            for new, old in pairs
            if (ours := new.get(name)) is not None and (theirs := old.get(name)) is not None
        ]
        if both:
            new_values, old_values = zip(*both, strict=True)
            turns = Comparison(new_values, old_values)
            found[name] = Turns(median(new_values), median(old_values), turns.ratio, turns.ratios)
    return found


def show(console: Console, bench: str, old: Side, found: Mapping[str, Turns]) -> None:
    title = f"penstock bench {bench}: this checkout / {old.name}"
    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    for heading in ("new", "old", "new / old", "lowest", "highest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, turns in found.items():
        ends = (min(turns.ratios), max(turns.ratios)) if turns.ratios else (None, None)
        values = (turns.new, turns.old, turns.ratio, *ends)
        table.add_row(Text(name), *("-" if each is None else ratio_text(each) for each in values))
    console.print(table)
    console.print(Text(_METHOD, style="dim"))


@contextmanager
def worktree(revision: str) -> Iterator[tuple[str, Path]]:
    """The commit of a revision, and a folder with its files that is removed at the end."""
    commit = _git("rev-parse", "--verify", f"{revision}^{{commit}}")
    with tempfile.TemporaryDirectory(prefix="penstock-against-") as place:
        sources = Path(place).resolve() / "sources"
        _git("worktree", "add", "--detach", "--quiet", str(sources), commit)
        try:
            if not (sources / "benchmarks" / "penstock_benchmarks").is_dir():
                raise BenchError(
                    f"revision {revision} has no package benchmarks/penstock_benchmarks",
                    hint="Name a newer revision.",
                )
            yield commit, sources
        finally:
            _git("worktree", "remove", "--force", str(sources))


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(CHECKOUT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BenchError("git is not installed", hint="Install git.") from error
    if done.returncode != 0:
        raise BenchError(
            f"`git {' '.join(arguments)}` failed in {CHECKOUT}: {_last_line(done.stderr)}",
            hint="Run this command from a checkout, and name a commit, a branch or a tag.",
        )
    return done.stdout.strip()


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


@contextmanager
def _database(server: str) -> Iterator[str]:
    """A new database, so that no run meets the remains of another one."""
    name = "penstock_against"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"drop database if exists {name} with (force)")
        admin.execute(f"create database {name} template template0 encoding 'UTF8'")
        try:
            yield make_conninfo(server, dbname=name)
        finally:
            admin.execute(f"drop database if exists {name} with (force)")
