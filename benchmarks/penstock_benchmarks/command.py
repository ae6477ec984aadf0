"""`penstock bench`: the commands.

This module imports only what the command line needs, because every start of the program reads it.
The other modules are imported when a benchmark runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


_json = click.option(
    "--json",
    "json_file",
    type=click.File("w", encoding="utf-8", lazy=True),
    metavar="FILE",
    help="Write all results to FILE. - is stdout.",
)


def _shared(command: Command) -> Command:
    """The options that every benchmark takes."""
    options = [
        click.option(
            "--seconds",
            type=click.FloatRange(min=0, min_open=True),
            help="Measure for about this long. Loading and cleaning up take additional time.",
        ),
        _json,
        click.option(
            "--dsn",
            metavar="DSN",
            help="Measure this PostgreSQL. Default: PENSTOCK_DSN, DATABASE_URL, the embedded one.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


_clients = click.option(
    "--clients",
    type=click.IntRange(1, 200),
    default=8,
    show_default=True,
    help="Run this many client processes.",
)
_batch = click.option(
    "--batch",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Pass this many messages in each call.",
)


def _messages(default: int, text: str) -> Callable[[Command], Command]:
    kind = click.IntRange(min=100)
    return click.option("--messages", type=kind, default=default, show_default=True, help=text)


def _only(figures: tuple[str, ...]) -> Callable[[Command], Command]:
    return click.option(
        "--only",
        multiple=True,
        type=click.Choice(figures),
        metavar="FIGURE",
        help=f"Measure only one of {', '.join(figures)}. Repeatable.",
    )


@click.group()
def bench() -> None:
    """Compare Penstock with a plain SKIP LOCKED table, on your own database.

    It creates the schema penstock_bench and queues named bench-..., and removes them afterwards.
    """


@bench.command()
@_shared
@_clients
@click.option(
    "--only",
    multiple=True,
    metavar="FIGURE",
    help="Measure only this figure, such as cycle_10_sync or enqueue_1. Repeatable.",
)
@click.option(
    "--vacuum-plain",
    is_flag=True,
    help="Vacuum the plain table before each of its windows, which is its best case.",
)
@click.option(
    "--plain-order",
    type=click.Choice(("visible_at", "id")),
    default="visible_at",
    show_default=True,
    help="Order claims from the plain table by this column, and index it. id is faster at batch 1 "
    "and 100, visible_at at batch 10.",
)
def engine(only: tuple[str, ...], **chosen: Any) -> None:
    """Measure enqueue, and cycles of enqueue, claim and ack, at batch 1, 10 and 100."""
    from penstock_benchmarks.engine import contests

    known = [contest.figure for contest in contests()]
    for name in only:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(known)}", param_hint="--only")
    _run("engine", only=only, **chosen)


@bench.command()
@_shared
@_clients
@_batch
@_messages(500_000, "Pass this many messages through Penstock in each pinned phase.")
def steady(**chosen: Any) -> None:
    """Compare cycles while a transaction pins the horizon with cycles without it."""
    _run("steady", **chosen)


@bench.command()
@_shared
@_batch
@_messages(1_000_000, "Load this many ready or scheduled messages, and lease a hundredth of them.")
def depth(**chosen: Any) -> None:
    """Compare claims from a deep queue with claims from a nearly empty one."""
    _run("depth", **chosen)


@bench.command()
@_shared
@_batch
@_messages(100_000, "Store this many messages to measure heap and index.")
def wal(**chosen: Any) -> None:
    """Measure the WAL bytes of a cycle, and the heap and index bytes of a message."""
    _run("wal", **chosen)


@bench.command()
@_shared
@_clients
def worker(**chosen: Any) -> None:
    """Measure the rate and latency of workers, idle queries, and the cost of wake-ups."""
    _run("worker", **chosen)


@bench.command()
@_shared
def limits(**chosen: Any) -> None:
    """Measure how close one and four workers come to a throughput limit."""
    _run("limits", **chosen)


@bench.command()
@_shared
@click.option(
    "--messages",
    type=click.IntRange(min=100),
    help="Measure batches of this many members, in two turns. Default: what fits into the time.",
)
def tasks(messages: int | None, **chosen: Any) -> None:
    """Compare typed tasks, their results and batches with plain handlers and single calls."""
    _run("tasks", messages=messages or 0, **chosen)


CONTRACT_FIGURES = (
    "pgmq_cycle",
    "pgmq_cycle_by_one",
    "pgmq_cycle_pinned",
    "pgmq_cycle_scheduled_1m",
    "mdb_claim_over_native",
)


@bench.command()
@_shared
@_clients
@_messages(500_000, "Pass this many messages while the horizon is pinned, and delay twice as many.")
@_only(CONTRACT_FIGURES)
def contracts(**chosen: Any) -> None:
    """Compare PGMQ's functions on Penstock with a table of PGMQ's shape."""
    _run("contracts", **chosen)


COMMIT_FIGURES = (
    *("txn_50ms_p50_ms", "txn_50ms_p99_ms", "txn_300ms_p99_ms", "txn_5s_p99_ms"),
    *("slow_commit_p99_over_plain", "sql_loop_p99_over_plain", "rescans_that_found"),
    *("metrics_over_pgmq", "count_over_pgmq", "cold_claim_over_pgmq", "crowd_64_over_pgmq"),
    *("depth_limit_over_free", "group_over_free"),
)
COMMIT_EXTRAS = (
    *("drain_p50_ms", "drain_p99_ms", "stats_over_plain", "cold_enqueue_over_pgmq"),
    "long_poll_p99_over_plain",
    *("cold_ack_over_pgmq", "session_memory_mb", "deadlocks", "txn_60s_p99_ms"),
)


@bench.command()
@_shared
@_only(COMMIT_FIGURES + COMMIT_EXTRAS)
@click.option(
    "--long",
    is_flag=True,
    help="Hold transactions for 60 seconds too, and look for deadlocks for 5 minutes.",
)
def commit(**chosen: Any) -> None:
    """Measure delivery after commit, reads, new sessions and limits."""
    _run("commit", **chosen)


@bench.command()
@_shared
@_clients
@click.option(
    "--consumers",
    type=click.IntRange(1, 10_000),
    default=500,
    show_default=True,
    help="Run this many long polls at once.",
)
def http(**chosen: Any) -> None:
    """Compare the HTTP server with a static response of its framework, and with SQL."""
    _run("http", **chosen)


LAKE_FIGURES = (
    *("land_over_jdbc", "claim_over_log", "sink_over_jdbc", "queue_while_landing"),
    *("longest_snapshot_seconds", "lake_latency_p50_seconds"),
)


@bench.command()
@_json
@_messages(2_000_000, "Land this many rows of history, and enqueue and claim a fifth of them.")
@_only(LAKE_FIGURES)
@click.option(
    "--jdbc-jar",
    metavar="FILE",
    default="/usr/share/java/postgresql.jar",
    show_default=True,
    help="Use this JDBC driver of PostgreSQL for the comparison.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=4,
    show_default=True,
    help="Let the two sides of a figure take turns this often.",
)
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a setting of Spark for the figures with two sides. Repeatable.",
)
@click.option("--short", is_flag=True, help="Run for a minute, as a test. The figures mean little.")
def lake(json_file: TextIO | None, **chosen: Any) -> None:
    """Compare Spark on Penstock with Spark's JDBC source, and measure the cost of landing.

    It uses a separate PostgreSQL, which is deleted afterwards.
    """
    from penstock_benchmarks.lake_jdbc import require_jar
    from penstock_benchmarks.tcp_server import tcp_server

    require_jar(Path(chosen["jdbc_jar"]), chosen["only"] or LAKE_FIGURES)
    with tcp_server() as dsn:
        _run("lake", dsn=dsn, json_file=json_file, **chosen)


@bench.command()
@_json
@_messages(
    10_000_000,
    "Fill the largest lake with this many. The others get 1/10 and 1/100.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=7,
    show_default=True,
    help="Measure this many refreshes at each size.",
)
@click.option("--short", is_flag=True, help="Run for a minute, as a test. The figures mean little.")
def refresh(json_file: TextIO | None, **chosen: Any) -> None:
    """Measure the time to refresh silver and gold for 10,000 new messages, by size of the lake.

    It uses a separate PostgreSQL, which is deleted afterwards.
    """
    from penstock_benchmarks.tcp_server import tcp_server

    with tcp_server() as dsn:
        _run("refresh", dsn=dsn, json_file=json_file, **chosen)


def _run(name: str, *, dsn: str | None, json_file: TextIO | None, **chosen: Any) -> None:
    from penstock.db.embedded import connect_dsn
    from penstock.settings import Settings
    from penstock_benchmarks import runner

    # `penstock --dsn X bench engine` stores it with the options of the program.
    named = dsn or getattr(click.get_current_context().obj, "dsn", None)
    target = connect_dsn(Settings.from_environment(named))
    to_stderr = json_file is not None and json_file.name == "-"
    runner.run(name, target, chosen, json_file, to_stderr)


@bench.command("ablation")
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    help="Measure this many rounds.",
)
@click.option("--only", metavar="TEXT", help="Measure mechanisms whose names contain TEXT.")
@_json
@click.option(
    "--dsn",
    metavar="DSN",
    required=True,
    help="Measure this PostgreSQL on this machine. Its user must be allowed to create databases.",
)
def ablation(rounds: int, only: str | None, json_file: TextIO | None, dsn: str) -> None:
    """Measure what each mechanism of the engine is worth, by leaving it out.

    It creates two databases, penstock_ablation_with and penstock_ablation_without, and drops them.
    Processor time is read from /proc, so the server must run on this machine.
    """
    from penstock_benchmarks.ablation import run

    run(dsn, rounds, json_file, only)


COMPARABLE = tuple(sorted({*bench.commands, "peers"} - {"ablation"}))


@bench.command("against", context_settings={"allow_interspersed_args": False})
@click.argument("revision")
@click.argument("benchmark", type=click.Choice(COMPARABLE))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=8,
    show_default=True,
    help="Run the benchmark of each side this often.",
)
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Run REVISION with this Python, if it needs other dependencies than this checkout.",
)
@_json
@click.option(
    "--dsn",
    metavar="DSN",
    help="Measure this PostgreSQL, whose user must be allowed to create databases. "
    "Default: a temporary one.",
)
def against(
    revision: str,
    benchmark: str,
    arguments: tuple[str, ...],
    json_file: TextIO | None,
    **chosen: Any,
) -> None:
    """Run BENCHMARK of this checkout and of the git revision REVISION in turns, and compare them.

    ARGUMENTS are the options of the benchmark. It is run from a checkout, and creates a git
    worktree and the database penstock_against, and removes both.
    """
    for option in ("--json", "--dsn"):
        if any(each.partition("=")[0] == option for each in arguments):
            raise click.UsageError(f"{option} must come before REVISION.")
    if benchmark == "peers" and chosen["dsn"] is not None:
        raise click.UsageError("peers starts its own PostgreSQL: leave --dsn out.")
    from penstock_benchmarks import against

    against.run(revision, benchmark, arguments, json_file=json_file, **chosen)
