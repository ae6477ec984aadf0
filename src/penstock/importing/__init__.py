"""Brings messages from elsewhere into a queue: those of a PGMQ queue, the rows of a plain table."""

from penstock.importing.mover import Move, Mover
from penstock.importing.sources import PgmqSource, Source, TableSource

__all__ = ["Move", "Mover", "PgmqSource", "Source", "TableSource"]
