"""The layout of a lake: the paths of its files, its tables, and the partitions of each table.

```
lake.json                                   what this lake is: see lake.py
_ledger/00000000000000000042.json           what is in it: see ledger.py
_staging/...                                files of a step that is not decided yet
_quarantine/20260131T120000Z/...            damaged files that `repair` moved aside
bronze/history/day=2026-01-31/queue=orders/part-....parquet
silver/messages/day=2026-01-31/queue=orders/part-....parquet
silver/orders/day=2026-01-31/queue=orders/part-....parquet       a model's table: see models/
silver/quarantine/day=2026-01-31/queue=orders/part-....parquet   messages that do not fit it
gold/queue_minute/day=2026-01-31/part-....parquet
gold/revenue/day=2026-01-31/part-....parquet                     a project's table: see project/
```

Names that begin with `_` are not data: Spark, Hive, DuckDB and the others pass over them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

LAKE_FILE: Final = "lake.json"
LEDGER: Final = "_ledger"
STAGING: Final = "_staging"
QUARANTINE: Final = "_quarantine"


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One table of the lake. The ranges in the ledger are values of `id_column`.

    `declared_schema` is the schema of a table that a project declares, as Spark's JSON. The
    columns of the other tables are in columns.py.
    """

    layer: str
    name: str
    partitions: tuple[str, ...]
    id_column: str | None = None
    time_column: str | None = None
    declared_schema: str | None = field(default=None, compare=False, repr=False)

    @property
    def path(self) -> str:
        return f"{self.layer}/{self.name}"

    @property
    def view(self) -> str:
        """Its name in `penstock lake query`."""
        return f"{self.layer}_{self.name}"


_BY_QUEUE: Final = ("day", "queue")
BRONZE_HISTORY: Final = LakeTable("bronze", "history", _BY_QUEUE, "id", "finished_at")
BRONZE_ATTEMPTS: Final = LakeTable("bronze", "attempts", _BY_QUEUE, "message_id", "ended_at")
SILVER_MESSAGES: Final = LakeTable("silver", "messages", _BY_QUEUE, "id", "finished_at")
SILVER_ATTEMPTS: Final = LakeTable("silver", "attempts", _BY_QUEUE, "message_id", "ended_at")
SILVER_QUARANTINE: Final = LakeTable("silver", "quarantine", _BY_QUEUE, "id", "finished_at")
GOLD_QUEUE_MINUTE: Final = LakeTable("gold", "queue_minute", ("day",))
GOLD_QUEUE_DAY: Final = LakeTable("gold", "queue_day", ("day",))
GOLD_ERROR_DAY: Final = LakeTable("gold", "error_day", ("day",))
GOLD_WORKER_MINUTE: Final = LakeTable("gold", "worker_minute", ("day",))

BRONZE: Final = (BRONZE_HISTORY, BRONZE_ATTEMPTS)
SILVER: Final = (SILVER_MESSAGES, SILVER_ATTEMPTS)
GOLD: Final = (GOLD_QUEUE_MINUTE, GOLD_QUEUE_DAY, GOLD_ERROR_DAY, GOLD_WORKER_MINUTE)
TABLES: Final = {table.path: table for table in (*BRONZE, *SILVER, SILVER_QUARANTINE, *GOLD)}
LAYERS: Final = ("bronze", "silver", "gold")


def typed_table(name: str, declared_schema: str) -> LakeTable:
    """The table of a model, in silver."""
    return LakeTable(
        "silver", name, _BY_QUEUE, "message_id", "message_finished_at", declared_schema
    )


def own_gold_table(name: str, declared_schema: str) -> LakeTable:
    """A table of a project, in gold."""
    return LakeTable("gold", name, ("day",), declared_schema=declared_schema)


def partition_values(path: str) -> dict[str, str]:
    """`bronze/history/day=2026-01-31/queue=orders/x.parquet` -> day and queue.

    Queue names and days hold nothing that a path would have to escape.
    """
    parts = (part.partition("=") for part in path.split("/")[:-1])
    return {name: value for name, equals, value in parts if equals}
