"""`penstock completion`: the shell completes commands, options and their choices."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from penstock.cli.command_classes import Verbs
from penstock.cli.session import Session, pass_session
from penstock.errors import ConfigurationError

VARIABLE: Final = "_PENSTOCK_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
# fish reads its folder. The other shells read a line of their profile.
PROFILES: Final = {"bash": ".bashrc", "zsh": ".zshrc"}
shell_argument = click.argument(
    "shell", type=click.Choice(SHELLS), required=False, metavar="[SHELL]"
)


@click.group(cls=Verbs)
def completion() -> None:
    """Install completion for bash, zsh or fish."""


@completion.command()
@shell_argument
@click.pass_context
def install(ctx: click.Context, shell: str | None) -> None:
    """Install completion for SHELL, or for the shell of $SHELL.

    It writes the script to your home directory. For bash and zsh it adds one
    line to ~/.bashrc or ~/.zshrc. A second call changes nothing.
    """
    session = ctx.ensure_object(Session)
    chosen = shell or shell_of(os.environ)
    file, profile = install_files(chosen, script_of(ctx, chosen), os.environ)
    document = {"shell": chosen, "file": str(file), "profile": profile and str(profile)}
    session.show(document, f"completion for {chosen} is installed; open a new shell")


@completion.command()
@shell_argument
@pass_session
def show(session: Session, shell: str | None) -> None:
    """Print the script for SHELL, or for the shell of $SHELL."""
    chosen = shell or shell_of(os.environ)
    script = script_of(click.get_current_context(), chosen)
    session.show({"shell": chosen, "script": script}, script)


def shell_of(environment: Mapping[str, str]) -> str:
    name = Path(environment.get("SHELL", "")).name
    if name not in SHELLS:
        raise ConfigurationError(
            f"the shell {name or 'of this session'!r} is not known",
            hint="Name one: `penstock completion install bash`, zsh or fish.",
        )
    return name


def script_of(ctx: click.Context, shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None, "one of SHELLS"
    return kind(ctx.find_root().command, {}, "penstock", VARIABLE).source()


def install_files(
    shell: str, script: str, environment: Mapping[str, str]
) -> tuple[Path, Path | None]:
    """Write the script and the line that loads it. Returns their paths."""
    home = Path(environment.get("HOME") or Path.home())
    if shell == "fish":
        config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
        return _write(config / "fish" / "completions" / "penstock.fish", script), None
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    file = _write(data / "penstock" / f"completion.{shell}", script)
    profile = home / PROFILES[shell]
    quoted = shlex.quote(str(file))
    line = f"[ -r {quoted} ] && . {quoted}  # completion of penstock"
    before = profile.read_text("utf-8") if profile.exists() else ""
    if line not in before.splitlines():
        gap = "" if not before or before.endswith("\n") else "\n"
        with profile.open("a", encoding="utf-8") as opened:
            opened.write(f"{gap}{line}\n")
    return file, profile


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path
