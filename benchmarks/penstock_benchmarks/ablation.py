"""`bench ablation`: what each mechanism of the engine is worth, measured by leaving it out.

Each mechanism is left out by replacements in the SQL sources, as in tests/mutants.py. The changed
engine and the original are installed in two databases of the same server and measured in turns. A
mechanism of the clients is left out by the scenario, in the database that has its setting.
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
from penstock_benchmarks import ablation_scenarios, ablation_sessions
from penstock_benchmarks.ablation_scenarios import Scenario
from penstock_benchmarks.ablation_sessions import CLAIMS_WAIT

SCENARIOS = ablation_scenarios.SCENARIOS | ablation_sessions.SCENARIOS
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
    # A setting of the database without the mechanism, for a mechanism that is in the clients. The
    # scenario reads it.
    setting: str | None = None


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
        "grants instead of an index on the end of leases in place",
        ("wal of a cycle of 100", "cpu of a cycle of 100"),
        (
            Change(
                "schema/message.sql",
                "create index lane_{slot}_order",
                "create index lane_{slot}_hold on penstock.lane_{slot} (hold) where hold <> 0;\n"
                "create index lane_{slot}_order",
            ),
            Change(
                "functions/claim/take_in_place.sql",
                "from held h having count(*) > 0",
                "from held h where false having count(*) > 0",
            ),
        ),
    ),
    Mechanism(
        "by-id variants instead of an index on the id of every lease",
        ("wal of a cycle of 1", "cpu of a cycle of 1"),
        (Change("schema/message.sql", "(id) where token < 0", "(id)"),),
    ),
    Mechanism(
        "nine segments instead of five of twice the size",
        (
            "cpu of the first claim of a session",
            "memory of a session",
            "cpu of a cycle of 1",
            "disk after 200,000 messages, horizon pinned",
            "disk after 400,000 messages next to long leases",
        ),
        (
            Change("layout/ring.sql", "ring.last_segment as 8", "ring.last_segment as 4"),
            Change("layout/ring.sql", "'12345678'", "'1234'"),
            Change("layout/ring.sql", "ring.crowded as 6", "ring.crowded as 3"),
            Change("layout/ring.sql", "ring.share as 32768", "ring.share as 65536"),
        ),
    ),
    Mechanism(
        "first claims without upkeep",
        ("cpu of the first claim of a session",),
        (
            Change(
                "functions/claim/claim.sql",
                "when random() < float8 '0.0625' then {timing.overdue} "
                "else {timing.long_overdue} end",
                "else {timing.due} end",
            ),
            Change(
                "functions/claim/claim.sql",
                "set_config('penstock.tends', 'on', false) is null end",
                "set_config('penstock.tends', 'on', false) is not null end",
            ),
        ),
    ),
    Mechanism(
        "deferred upkeep",
        ("due messages that others cannot claim next to an open block",),
        (
            Change(
                "functions/claim/in_passing.sql",
                "perform penstock._announce('upkeep', 'upkeep', null);",
                "perform penstock._commit_upkeep();",
            ),
        ),
    ),
    Mechanism(
        "wake-ups",
        ("delivery to a waiting consumer, median",),
        (
            Change(
                "functions/enqueue/wake.sql",
                "perform pg_notify(penstock.wake_channel(queue), what);",
                "null;",
            ),
        ),
    ),
    Mechanism(
        "claims without disk wait",
        ("time of a claim and its commit, median",),
        setting=CLAIMS_WAIT,
    ),
    Mechanism(
        "_pick",
        ("longest ack next to a block that is open for a second",),
        (
            Change(
                "functions/claim/pick.sql",
                "if alone or pg_relation_size('penstock.grant_{slot}', 'main') = bigint '0' then",
                "if true then",
            ),
        ),
    ),
    Mechanism(
        "setting long commits aside",
        ("cpu of a cycle of 1 after 20,000 messages, next to a long commit",),
        (
            Change(
                "functions/claim/sweep.sql",
                "elsif not ended and age_ms not between 0 and {timing.set_aside_ms} then",
                "elsif false then",
            ),
        ),
    ),
    Mechanism(
        "later positions for late blocks",
        ("cpu of the commit of a block after 20,000 messages and of 10 cycles, pinned",),
        (
            Change(
                "layout/limit.sql",
                "limit.late_positions as {late_from}",
                "limit.late_positions as {bigint.max}",
            ),
        ),
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
        (Change("functions/storage/body.sql", "{payload.inline_bytes}", "100000000"),),
    ),
    Mechanism(
        "time slots of history",
        ("wal of removing the history of 20,000 messages", "disk after removing that history"),
        (
            Change(
                "functions/storage/history_slots.sql",
                "execute format('truncate penstock.history_log_%1$s, penstock.attempt_log_%1$s', "
                "slot);",
                "execute format('delete from penstock.history_log_%1$s', slot);\n"
                "  execute format('delete from penstock.attempt_log_%1$s', slot);",
            ),
        ),
    ),
    Mechanism(
        "recognising autocommit",
        ("transaction ids of 200 claims without prepared statements",),
        (
            Change(
                "functions/claim/claim.sql",
                "current_setting('penstock.alone', true) = 'on'",
                "false",
            ),
            Change(
                "functions/common/transaction.sql",
                "coalesce(current_setting('penstock.alone', true) = 'on', false)",
                "false",
            ),
        ),
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
        (
            Change(
                "functions/storage/close_segments.sql",
                "not between 0 and {timing.wear_check}",
                "is null",
            ),
        ),
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
        if mechanism.setting is not None:
            admin.execute(f"alter database {names[1]} set {mechanism.setting} = on")
        yield addresses[0], addresses[1]


def install_sources(place: Path, mechanism: Mechanism) -> Path:
    """The SQL of the package without the mechanism."""
    shutil.copytree(str(files("penstock") / "sql"), place)
    for change in mechanism.changes:
        change.apply(place)
    expander = Expander(place, hold_from=mechanism.hold_from)
    for name, text in expander.generated().items():
        (place / "generated" / name).write_text(text, "utf-8")
    # The first migration creates the changed schema, and the others have nothing to add.
    first, *others = sorted((place / "migrations").glob("*.sql"))
    first.write_text(expander.folder("schema"), "utf-8")
    for migration in others:
        migration.write_text("select 1;\n", "utf-8")
    return place


def _install(dsn: str, sources: Path | None) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        Migrator(connection, sources).up()
        connection.execute("select penstock.create_queue('work', '{\"keep_history\": 0}')")
