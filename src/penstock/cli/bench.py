"""`penstock bench`: the commands of the package penstock-benchmarks, if it is installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import click

PACKAGE = "penstock_benchmarks"


@click.command("bench", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _missing(arguments: tuple[str, ...]) -> None:
    """Measure this database (needs the package penstock-benchmarks)."""
    raise click.ClickException(
        "The benchmarks are not installed. They come with the sources of Penstock: "
        "in a checkout, run `make bench`, or `pip install ./benchmarks`."
    )


def _find() -> click.Command:
    if find_spec(PACKAGE) is None:
        return _missing
    command: click.Command = import_module(f"{PACKAGE}.command").bench
    return command


bench = _find()
