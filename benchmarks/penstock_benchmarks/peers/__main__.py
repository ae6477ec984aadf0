"""`make bench-peers`: run, and write everything that was measured into a file."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from penstock_benchmarks.peers.bars import verdicts
from penstock_benchmarks.peers.contender import Contender, names
from penstock_benchmarks.peers.database import Database
from penstock_benchmarks.peers.plan import FORMS
from penstock_benchmarks.peers.results import Results, write
from penstock_benchmarks.peers.run import Run
from penstock_benchmarks.peers.scenarios import SCENARIOS


@click.group()
def main() -> None:
    """Compare Penstock with its alternatives."""


def _chosen(kind: str, known: list[str]) -> Any:
    def check(_: Any, __: Any, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if value not in known:
                raise click.BadParameter(f"{value!r} is not a {kind}; allowed: {', '.join(known)}")
        return values

    return check


def _settings(_: Any, __: Any, values: tuple[str, ...]) -> dict[str, str]:
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
    return dict(value.split("=", 1) for value in values)


@main.command()
@click.option("--form", type=click.Choice(list(FORMS)), default="full", show_default=True)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    callback=_chosen("peer", list(names())),
    help="Only this one; may be given several times.",
)
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    callback=_chosen("scenario", list(SCENARIOS)),
    help="Only this one; may be given several times.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=_settings,
    metavar="NAME=VALUE",
    help="A setting of the PostgreSQL that is started for the run, as synchronous_commit=off.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--resume",
    is_flag=True,
    help="Continue the run in the file of --json: scenarios that it has whole are kept, "
    "but for those that --scenario names, which are measured again.",
)
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="What peers print.")
def run(
    form: str,
    peers: tuple[str, ...],
    scenarios: tuple[str, ...],
    settings: dict[str, str],
    json_file: Path | None,
    resume: bool,
    log: Path | None,
) -> None:
    """Measure. The full form takes less than 40 minutes, the short one about three minutes."""
    results = Results(form, json_file)
    if resume:
        if peers:
            raise click.UsageError("--resume measures all peers: they take turns in a scenario.")
        results.load(again=scenarios)
    # `timeout` and supervisors end a run this way: the server it started goes with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        database = stack.enter_context(Database(settings))
        output = stack.enter_context((log or Path(os.devnull)).open("wb"))
        contenders = []
        for name in peers or names():
            contender = Contender(name, names()[name], database, output)
            stack.callback(contender.close)
            _say(f"installing {name}")
            contender.open()
            contenders.append(contender)
        measured = Run(database, contenders, FORMS[form], _say)
        results.begin(measured)
        for name in scenarios or SCENARIOS:
            if name not in results.parts:
                with results.part(name):
                    SCENARIOS[name](measured)
        document = results.write()
    for line in verdicts(document["figures"]):
        click.echo(line)


@main.command()
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--docs", type=click.Path(file_okay=False, path_type=Path), default=Path("docs"))
def page(results: Path, docs: Path) -> None:
    """Write docs/benchmarks.md and its pictures from the results of a run."""
    from penstock_benchmarks.peers.page import text
    from penstock_benchmarks.peers.plots import draw

    document = json.loads(results.read_text(encoding="utf-8"))
    draw(document, docs / "benchmarks")
    (docs / "benchmarks.md").write_text(text(document), encoding="utf-8")
    write(docs / "benchmarks" / "results.json", document)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
