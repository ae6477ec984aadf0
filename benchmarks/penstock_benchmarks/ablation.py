"""`bench ablation`: what each mechanism of the engine is worth, measured by leaving it out.

Each mechanism is left out by replacements in the SQL sources, as in tests/mutants.py. The changed
engine and the original are installed in two databases of the same server and measured in turns.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TextIO

import click
import psycopg
from psycopg.conninfo import make_conninfo

from penstock.db.migrations import Migrator
from penstock.sql.expand import HOLD_FROM, Expander
from penstock_benchmarks.ablation_scenarios import SCENARIOS, Scenario

ROUNDS = 5
# Larger than any claim: no message is leased in place.
_NEVER_IN_PLACE = 10_001


@dataclass(frozen=True)
class Change:
    """A replacement in one source file; it must apply at least once."""

    file: str
    old: str
    new: str

    def apply(self, sources: Path) -> None:
        path = sources / self.file
        # The old text, wherever its lines are broken.
        pattern = re.compile(r"\s+".join(map(re.escape, self.old.split())))
        text, count = pattern.subn(lambda _: self.new, path.read_text("utf-8"))
        if count == 0:
            raise click.ClickException(f"{self.file} no longer contains {self.old!r}")
        path.write_text(text, "utf-8")


@dataclass(frozen=True)
class Mechanism:
    name: str
    scenarios: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    hold_from: int = HOLD_FROM


MECHANISMS = (
    Mechanism(
        "lease in place, from 16 messages on",
        ("wal of a cycle of 100", "cpu of a cycle of 100"),
        hold_from=_NEVER_IN_PLACE,
    ),
    Mechanism(
        "move small claims instead of leasing them in place",
        ("cpu of a cycle of 1", "cpu of a cycle of 4", "wal of a cycle of 1"),
        hold_from=1,
    ),
    Mechanism(
        "floors",
        ("cpu of a claim, horizon pinned",),
        (
            Change(
                "functions/claim/sweep.sql",
                "if first > floor then perform setval(q.floors[lane], first); end if;",
                "null;",
            ),
        ),
    ),
    Mechanism(
        "ring of segments",
        ("disk after 200,000 messages, horizon pinned",),
        (Change("layout/ring.sql", "ring.share as 32768", "ring.share as 1099511627776"),),
    ),
    Mechanism(
        "generations",
        ("blocks missed by the first claim",),
        (
            Change(
                "functions/background/commit_put.sql",
                "case when {register.value(t.floor)} > at_position"
                " then setval(t.floor, below + bigint '1') end,",
                "",
            ),
        ),
    ),
    Mechanism(
        "unlogged registers",
        ("transaction ids of 200 polls",),
        (Change("functions/storage/register.sql", "create unlogged sequence", "create sequence"),),
    ),
    Mechanism(
        "quiet bit of the sweep register",
        ("cpu of an empty poll",),
        (
            Change(
                "functions/claim/claim.sql",
                "{sweep.is_quiet({register.value(q.sweep_register)})}",
                "false",
            ),
        ),
    ),
    Mechanism(
        "rescan",
        ("messages not found within 3 s of damaged floors",),
        (
            Change(
                "functions/claim/rescan.sql",
                "if lowest < {register.value(q.floors[lane])}",
                "if false",
            ),
        ),
    ),
    Mechanism(
        "large payloads in body_N",
        ("wal of a cycle, 64 KiB payload",),
        (Change("functions/storage/body.sql", "> 1000", "> 100000000"),),
    ),
    Mechanism(
        "overflow segment",
        ("disk after 400,000 messages next to long leases",),
        (
            Change(
                "functions/storage/tend_ring.sql",
                "if length(closing || replace(live, '0', '')) >= {ring.crowded} then",
                "if false then",
            ),
        ),
    ),
    Mechanism(
        "early turn of the ring",
        ("disk after a burst of 30,000 messages",),
        (Change("functions/storage/close_segments.sql", "not between 0 and 10000000", "is null"),),
    ),
    Mechanism(
        "first row of a queue",
        ("cpu of stats after 20,000 messages, horizon pinned",),
        (Change("functions/read/first_row.sql", "return first;", "return 0;"),),
    ),
    Mechanism(
        "floors of timers",
        ("cpu of an empty poll after 20,000 delayed messages, horizon pinned",),
        (
            Change(
                "functions/claim/timers.sql",
                "then setval(floor, to_us) + pg_advisory_unlock",
                "then 0 + pg_advisory_unlock",
            ),
        ),
    ),
    Mechanism(
        "upper bound of the depth",
        ("cpu of an enqueue under max_depth, 5,000 waiting",),
        (
            Change(
                "functions/enqueue/depth.sql",
                "answer text := penstock._reserve_below_bound(q, n);",
                "answer text := 'unknown';",
            ),
        ),
    ),
)


def run(dsn: str, rounds: int, json_file: TextIO | None, only: str | None) -> None:
    """Measures every mechanism and prints a table for docs/explanation/engine.md."""
    found = []
    click.echo("| mechanism | measured | with | without | without / with |\n|---|---|---|---|---|")
    for mechanism in MECHANISMS:
        if only is not None and only not in mechanism.name:
            continue
        with _databases(dsn, mechanism) as pair:
            for name in mechanism.scenarios:
                values = _measure(SCENARIOS[name], pair, rounds)
                found.append({"mechanism": mechanism.name, "scenario": name, **values})
                click.echo(_row(mechanism.name, name, values))
    if json_file is not None:
        json.dump({"ablation": found}, json_file, indent=2)


def _measure(scenario: Scenario, pair: tuple[str, str], rounds: int) -> dict[str, float]:
    """The best of several turns on both sides: what disturbs a measurement only adds to it."""
    values: tuple[list[float], list[float]] = ([], [])
    for turn in range(scenario.rounds or rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            with psycopg.connect(pair[side], autocommit=True) as connection:
                values[side].append(scenario.measure(connection, pair[side]))
    return {"with": min(values[0]), "without": min(values[1])}


def _row(mechanism: str, scenario: str, values: dict[str, float]) -> str:
    ratio = f"{values['without'] / values['with']:.2f}" if values["with"] else ""
    unit = SCENARIOS[scenario].unit
    texts = [
        f"{values[side]:,.{SCENARIOS[scenario].digits}f} {unit}" for side in ("with", "without")
    ]
    return f"| {mechanism} | {scenario} | {texts[0].strip()} | {texts[1].strip()} | {ratio} |"


@contextmanager
def _databases(dsn: str, mechanism: Mechanism) -> Iterator[tuple[str, str]]:
    """Two new databases: with the mechanism, and without it. Both are dropped at the end."""
    with psycopg.connect(dsn, autocommit=True) as admin, ExitStack() as stack:
        names = ("penstock_ablation_with", "penstock_ablation_without")
        for name in names:
            admin.execute(f"drop database if exists {name} with (force)")
            admin.execute(f"create database {name} template template0 encoding 'UTF8'")
            stack.callback(admin.execute, f"drop database if exists {name} with (force)")
        addresses = tuple(make_conninfo(dsn, dbname=name) for name in names)
        _install(addresses[0], None)
        with tempfile.TemporaryDirectory(prefix="ablation-") as place:
            _install(addresses[1], install_sources(Path(place) / "sql", mechanism))
        yield addresses[0], addresses[1]


def install_sources(place: Path, mechanism: Mechanism) -> Path:
    """The SQL of the package without the mechanism."""
    shutil.copytree(str(files("penstock") / "sql"), place)
    for change in mechanism.changes:
        change.apply(place)
    for name, text in Expander(place, hold_from=mechanism.hold_from).generated().items():
        (place / "generated" / name).write_text(text, "utf-8")
    return place


def _install(dsn: str, sources: Path | None) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        Migrator(connection, sources).up()
        connection.execute("select penstock.create_queue('work', '{\"keep_history\": 0}')")
