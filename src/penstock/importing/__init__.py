"""Imports messages into a queue, from a PGMQ queue or from the rows of a table."""

from penstock.importing.mover import Move, Mover
from penstock.importing.sources import PgmqSource, Source, TableSource

__all__ = ["Move", "Mover", "PgmqSource", "Source", "TableSource"]
