"""What a refresh reads, counted from the ledger: new files and the gold of their days."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.lake.lake import Lake
from penstock.lake.layout import BRONZE_HISTORY, GOLD, SILVER_MESSAGES
from penstock.lake.refresh import _inputs, _next_pending
from penstock.lake.storage.ledger import DataFile, State

DAY = "2026-01-31"
FILE_ROWS = 50_000
NEW_ROWS = 10_000


def lake_of(messages: int) -> State:
    """So many messages of one day and queue, and new ones that silver lacks."""
    files = [
        _file(f"{table.path}/day={DAY}/queue=q/part-{first}.parquet", FILE_ROWS, first)
        for table in (BRONZE_HISTORY, SILVER_MESSAGES)
        for first in range(0, messages, FILE_ROWS)
    ]
    gold = [_file(f"{table.path}/day={DAY}/part-0.parquet", 60, 0) for table in GOLD]
    new = _file(f"{BRONZE_HISTORY.path}/day={DAY}/queue=q/part-new.parquet", NEW_ROWS, messages)
    every = {file.path: file for file in [*files, *gold, new]}
    return State(version=1, files=every, pending=frozenset([new.path]))


def _file(path: str, rows: int, first_id: int) -> DataFile:
    return DataFile(path, rows, rows * 100, first_id, first_id + rows - 1, 0, 1)


@pytest.mark.parametrize("messages", [100_000, 1_000_000, 10_000_000])
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_refresh_reads_the_new_rows_and_the_gold_of_their_day(
    root: str, messages: int, epoch: int
) -> None:
    """Also after a new beginning (epoch 1), when rows may land again with ids that silver has."""
    lake = Lake.open_or_create(root, format="parquet", name="test")
    state = replace(lake_of(messages), epoch=epoch)
    read = _inputs(lake, state, _next_pending(state))
    assert sum(file.rows for file in read) == NEW_ROWS + 60 * len(GOLD)
    assert len(read) == 1 + len(GOLD)
