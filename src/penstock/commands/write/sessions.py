"""Ends sessions that hold the MVCC horizon back."""

from __future__ import annotations

from penstock.commands import arguments as check
from penstock.commands.command import Command, scalar
from penstock.sql.loader import load_query


def end_session(pid: int, begun: str) -> Command[bool]:
    """End a session while it is in the transaction that has `begun`. False if it is not.

    A connection of Penstock is never ended.
    """
    params = {"pid": check.whole("pid", pid), "begun": check.text("begun", begun)}
    return Command(load_query("operate/end_session"), params, scalar)
