"""The command line: every verb of the library, for people and for scripts."""

from penstock.cli.program import main

__all__ = ["main"]
