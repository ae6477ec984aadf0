"""From how many positions below the floor on the engine moves the messages of a block at commit."""

from __future__ import annotations

from typing import Any

from penstock.sql.expand import Expander


def late_from(connection: Any, positions: int) -> None:
    """Moves the messages of blocks that are so many positions late, not only of 4,096."""
    expander = Expander(late_from=positions)
    for name in ("reposition", "commit_put"):
        connection.execute(expander.file(f"functions/background/{name}.sql").encode())
