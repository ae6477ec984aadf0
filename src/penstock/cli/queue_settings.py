"""Settings of a queue or a schedule as arguments: `max_attempts=3 paused=yes`."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from typing import Any, cast

import click

from penstock.cli.parameters import parse_json
from penstock.model.queue import QueueSettings, SettingsChange

KEYS = tuple(field.name for field in dataclasses.fields(QueueSettings))
WORDS: dict[str, Any] = {
    "yes": True,
    "on": True,
    "no": False,
    "off": False,
    "default": None,
    "none": None,
}


def parse_settings(arguments: tuple[str, ...]) -> SettingsChange:
    return cast(SettingsChange, parse_pairs(arguments, KEYS))


def parse_pairs(arguments: Sequence[str], keys: Sequence[str]) -> dict[str, Any]:
    """The names are checked here. The database checks the values, because it has the ranges."""
    chosen: dict[str, Any] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            raise click.UsageError(f"{argument!r} is not a setting; write it as key=value")
        if key not in keys:
            raise click.UsageError(f"no setting is called {key!r}{_did_you_mean(key, keys)}")
        if key in chosen:
            raise click.UsageError(f"setting {key!r} is given twice")
        chosen[key] = _value(text)
    return chosen


def _did_you_mean(key: str, keys: Sequence[str]) -> str:
    close = difflib.get_close_matches(key.lower().replace("-", "_"), keys, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(keys)}"


def _value(text: str) -> Any:
    """JSON if it is valid JSON, otherwise a word, which the database refuses by name."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return parse_json(text)
    except ValueError:
        return text
