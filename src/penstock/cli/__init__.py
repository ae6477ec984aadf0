"""The command line: every verb of the library, for users and for scripts."""

from penstock.cli.program import main

__all__ = ["main"]
