"""The reference and the program say the same, and every command explains itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from penstock.cli.program import penstock, run

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
SHARED = {"--dsn", "--json", "--debug", "--help", "-h"}
# Measured, and documented, on a separate page.
ELSEWHERE = ("penstock bench",)


def walk(command: click.Command, path: str) -> dict[str, click.Command]:
    found = {path: command}
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            found |= walk(child, f"{path} {name}")
    return found


COMMANDS = walk(penstock, "penstock")
OURS = {path: c for path, c in COMMANDS.items() if not path.startswith(ELSEWHERE)}


def sections() -> dict[str, str]:
    """Each command's part of the reference, by its heading."""
    parts = re.split(r"^#+ `(penstock[^`]*)`\n", REFERENCE.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_is_documented_and_every_documented_command_exists() -> None:
    assert sections().keys() == OURS.keys() - {"penstock"} | set(ELSEWHERE)


def test_the_session_at_the_top_works_as_it_stands(cli: Callable[..., Any]) -> None:
    block = re.search(r"```console\n(.*?)```", REFERENCE.read_text("utf-8"), re.DOTALL)
    assert block
    shown = ""
    for line in block[1].splitlines():
        words = shlex.split(line.removeprefix("$ penstock"))
        if "TOKEN" in words:  # the first two columns of what `claim` showed
            words[1:] = shown.splitlines()[1].split()[:2]
        answer = cli(*words)
        assert (answer.code, answer.err) == (0, ""), line
        shown = answer.out
    assert shown.endswith("is done\n")


@pytest.mark.parametrize("path", sorted(OURS.keys() - {"penstock"}))
def test_every_option_is_documented_and_every_documented_option_exists(path: str) -> None:
    section = sections()[path]
    options = {
        name for p in OURS[path].params if isinstance(p, click.Option) for name in p.opts
    } - SHARED
    documented = set(re.findall(r"`(--?[a-z][a-z-]*)", _table(section)))
    assert documented == options
    for argument in OURS[path].params:
        if isinstance(argument, click.Argument):
            assert argument.make_metavar(click.Context(OURS[path])) in section


def _table(section: str) -> str:
    """The first column of the rows that begin with an option."""
    rows = (line for line in section.splitlines() if line.startswith("| `-"))
    return "\n".join(row.split("|")[1] for row in rows)


# Add a verb that is missing here. The list keeps nouns and adverbs out.
VERBS = re.findall(
    r"\w+",
    """
Add Allow Apply Cancel Change Check Choose Claim Compare Copy Count Create Delete Deliver Do
Drop End Enqueue Erase Expire Extend Fill Fire Give Grant Hold Identify Import Include Install Join
Land Let Limit Listen List Load Log Look Make Match Measure Move Name Order Override Pass Poll Print
Put Read Rebuild Recompute Record Redrive Refresh Register Release Remove Return Revoke Run Serve
Carry Encrypt Send Set Settle Show Sign Skip Start Stop Store Take Test Try Use Vacuum Wait Write
Rewrite
""",
)


def _is_instruction(text: str) -> bool:
    """A sentence that begins with a verb. The default of click may follow it in brackets."""
    sentence = re.sub(r"  \[default: .*\]$", "", text)
    return re.split(r"\W", sentence)[0] in VERBS and sentence.endswith(".")


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - {"penstock"}))
def test_every_command_and_option_says_what_it_does_beginning_with_a_verb(path: str) -> None:
    help = COMMANDS[path].help
    assert help is not None
    assert _is_instruction(help.split("\n\n")[0].strip()), help
    for parameter in COMMANDS[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help is not None, parameter.name
            assert _is_instruction(parameter.help), parameter.help


@pytest.mark.parametrize("path", sorted(OURS))
def test_every_command_takes_the_shared_options(path: str) -> None:
    options = {name for parameter in COMMANDS[path].params for name in parameter.opts}
    assert options >= {"--dsn", "--json", "--debug"}


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_help_is_shown(path: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path.split()[1:], option]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: {path} ")


@pytest.mark.parametrize("path", sorted(OURS))
def test_the_first_line_of_help_is_short_enough_for_the_list(path: str) -> None:
    assert not OURS[path].get_short_help_str(limit=80 - 12).endswith("...")


def test_the_table_of_settings_is_complete() -> None:
    from penstock.cli.queue_settings import KEYS

    rows = re.findall(r"^\| `(\w+)` \|", sections()["penstock queue create"], re.MULTILINE)
    assert rows == list(KEYS)


def test_the_table_of_schedule_settings_is_complete() -> None:
    from penstock.cli.schedule import OPTIONS

    rows = re.findall(r"^\| `(\w+)` \|", sections()["penstock schedule create"], re.MULTILINE)
    assert rows == list(OPTIONS)


def test_the_table_of_exit_codes_is_complete() -> None:
    from penstock.errors import ERRORS

    codes = re.findall(r"^\| (\d+) \|", REFERENCE.read_text("utf-8"), re.MULTILINE)
    assert {row.exit_code for row in ERRORS} <= set(map(int, codes))
