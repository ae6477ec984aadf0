"""`python -m tests.chaos`: plays the scenarios, prints a line for each, and writes a JSON."""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock_benchmarks.machine import machine, now, server, versions

from .arena import Arena, Scenario, Times
from .crew import faketime_library
from .scenarios import SCENARIOS
from .server import program_of
from .versions import commit_of

LONG = Times(rate=800, warm=5, window=20, fault=10, recover=180)
SHORT = Times(rate=200, warm=1, window=2, fault=2, recover=60)
# What the short form plays: each way in which work is cut off, and the horizon.
IN_SHORT = [
    "workers_killed",
    "server_restarted_immediate",
    "backends_terminated",
    "horizon_pinned_by_xid",
    "clocks_wrong",
    "schema_upgraded",
]
ENABLE = "As root: apt-get install pgbouncer faketime"
FAULTS = ("lost", "stale_settles", "ghosts", "order_violations", "errors")
SUMMED = ("messages", "committed", "unknown", "acked", "runs", "repeated", *FAULTS)


def main() -> int:
    options = _options()
    _check_programs(options)
    chosen = options.scenario or (IN_SHORT if options.short else None)
    scenarios = [each for each in SCENARIOS if chosen is None or each.name in chosen]
    revision = _previous(options, scenarios)
    arena = Arena(_times(options), direct=options.direct, keep=options.keep, revision=revision)
    with arena:
        report = _about(arena)
        rounds: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        while True:
            for scenario in scenarios:
                rounds[scenario.name].append(_played(arena, scenario, len(rounds[scenario.name])))
            done = sum(each["messages"] for played in rounds.values() for each in played)
            if done >= options.messages:
                break
    report["scenarios"] = {name: _together(played) for name, played in rounds.items()}
    report["ended_at"] = now()
    report["messages"] = done
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    total = {name: sum(s[name] for s in report["scenarios"].values()) for name in FAULTS}
    print(f"{done} messages: {', '.join(f'{count} {name}' for name, count in total.items())}")
    return 1 if any(total.values()) else 0


def _options() -> argparse.Namespace:
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a minute or two, for CI")
    parser.add_argument("--scenario", action="append", choices=names, help="only this; repeatable")
    parser.add_argument(
        "--messages", type=int, default=0, help="play again until there were so many"
    )
    parser.add_argument("--rate", type=float, help="messages offered a second")
    parser.add_argument("--window", type=float, help="seconds that the pace is measured for")
    parser.add_argument("--direct", action="store_true", help="without pgbouncer, with wake-ups")
    parser.add_argument(
        "--from",
        dest="revision",
        metavar="REVISION",
        help="the version that schema_upgraded upgrades, else the previous commit",
    )
    parser.add_argument("--json", type=Path, help="write what was seen to this file")
    parser.add_argument("--keep", type=Path, help="keep the journals in this directory")
    return parser.parse_args()


def _check_programs(options: argparse.Namespace) -> None:
    """The short form is part of `make test`, and does without where it must; the long one not."""
    missing = []
    if not options.direct and program_of("pgbouncer") is None:
        missing.append("pgbouncer")
    if faketime_library() is None:
        missing.append("faketime")
    if missing and not options.short:
        sys.exit(f"not installed: {', '.join(missing)}. {ENABLE}")
    if "pgbouncer" in missing:
        print("pgbouncer is not installed: workers connect to the server itself.", ENABLE)
        options.direct = True
    if "faketime" in missing:
        print("faketime is not installed: clocks_wrong is skipped.", ENABLE)
        IN_SHORT.remove("clocks_wrong")


def _previous(options: argparse.Namespace, scenarios: list[Scenario]) -> str | None:
    """The commit that is upgraded; None if no scenario needs it.

    Without history, the short form upgrades the checked-out files to themselves.
    """
    if not any(scenario.previous for scenario in scenarios):
        return None
    commit = commit_of(options.revision)
    if commit is None and not options.short:
        sys.exit(
            "schema_upgraded has no previous version: the commit before this one is missing, or "
            "its migrations are not the first ones of this version. Name a commit with --from."
        )
    print(f"schema_upgraded: from {commit or 'the checked-out files, there is no previous commit'}")
    return commit


def _times(options: argparse.Namespace) -> Times:
    times = SHORT if options.short else LONG
    given = {"rate": options.rate, "window": options.window}
    return replace(times, **{name: value for name, value in given.items() if value is not None})


def _about(arena: Arena) -> dict[str, Any]:
    with arena.server.connect() as connection:
        about = server(connection)
    return {
        "begun_at": now(),
        "machine": machine(),
        "versions": versions(),
        "server": about,
        "times": vars(arena.times),
        "previous_version": arena.revision,
        "through": "the server itself" if arena.direct else "pgbouncer, transaction mode",
    }


def _played(arena: Arena, scenario: Scenario, number: int) -> dict[str, Any]:
    begun = time.monotonic()
    answer = arena.play(replace(scenario, name=f"{scenario.name}-{number}"))
    answer["seconds"] = round(time.monotonic() - begun, 1)
    faults = ", ".join(f"{answer[name]} {name}" for name in FAULTS)
    print(
        f"{scenario.name}: {answer['committed']} messages, {answer['repeated']} delivered again, "
        f"{faults}; {answer['rate_after']}/s after {answer['rate_before']}/s, "
        f"ratio {answer['recovery_ratio']}, recovered in {answer['recovery_seconds']} s "
        f"({answer['seconds']} s, load {answer['load_average']})",
        flush=True,
    )
    for example in answer["examples"]:
        print(f"    {example}", flush=True)
    return answer


def _together(played: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts add up; the pace is that of the middle round."""
    ratios = [each["recovery_ratio"] for each in played if each["recovery_ratio"] is not None]
    return {
        **{name: sum(each[name] for each in played) for name in SUMMED},
        "recovery_ratio": statistics.median(ratios) if ratios else None,
        "rounds": played,
    }


if __name__ == "__main__":
    # A signal to this process ends the servers and workers, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
