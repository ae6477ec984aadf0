"""What `penstock lake` says in its last lines."""

from __future__ import annotations

import pytest

from penstock.cli.lake_screen import show_forgotten, show_matched, show_verification
from penstock.cli.screen import Screen
from penstock.lake.damage import Damage
from penstock.lake.maintenance.comparison import Comparison, Digest
from penstock.lake.maintenance.forget import Forgotten
from penstock.lake.maintenance.rewrite import Rewritten
from penstock.lake.maintenance.verify import Verification

FILE = "gold/queue_day/day=2026-01-31/part-1.parquet"
DAMAGE = Damage(FILE, "gold/queue_day", "2026-01-31", None, 3, "is missing")
CHANGED = "so rows of PostgreSQL have changed since"


def differs(table: str, against: str) -> Comparison:
    sides = Digest(40, 1), Digest(39, 2)
    return Comparison(table, against, "2026-01-31", "orders", *sides, ("id=7",))


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        ([differs("bronze/history", "postgresql"), differs("gold/queue_day", "silver")], CHANGED),
        ([differs("gold/queue_day", "silver")], "`penstock lake rebuild` recomputes silver and"),
        ([differs("shop.revenue", "gold")], "`penstock lake repair` publishes gold in PostgreSQL"),
    ],
)
def test_a_difference_is_named_with_the_way_out(
    found: list[Comparison], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_verification(Screen(), Verification([], found))
    *_, last = lines = capsys.readouterr().out.splitlines()
    assert f"{found[0].table}: 39 rows in 1 days and queues, 1 differ" in lines[0]
    assert any("2026-01-31  orders  40" in line and line.endswith("id=7") for line in lines)
    assert advice in last


def test_a_damaged_file_is_named_with_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    found = [differs("bronze/history", "postgresql")]
    show_verification(Screen(), Verification([DAMAGE], found))
    *_, damaged, last = capsys.readouterr().out.splitlines()
    assert damaged == f"damaged: {FILE} is missing (3 rows)"
    assert last == "`penstock lake repair` restores what can be restored"


def test_a_dry_run_says_what_it_did_not_search(capsys: pytest.CaptureFixture[str]) -> None:
    show_matched(Screen(), 3, 0, {})
    assert capsys.readouterr().out == "3 messages match\n"
    show_matched(Screen(), 3, 12, {"dead": 1, "ready": 2})
    _, behind, unfinished = capsys.readouterr().out.splitlines()
    assert behind == "12 rows of history have not landed and were not searched"
    assert unfinished.startswith("3 more messages match that are not finished (1 dead, 2 ready)")


def test_an_erasure_says_where_bytes_remain(capsys: pytest.CaptureFixture[str]) -> None:
    show_forgotten(Screen(), Forgotten(4, 10, 6, ("2026-01-31",)))
    erased, bytes_left = capsys.readouterr().out.splitlines()
    assert erased == "4 messages erased: 10 rows of the lake, 6 of PostgreSQL"
    assert bytes_left.startswith("add --rewrite")
    show_forgotten(Screen(), Forgotten(0, 0, 0, ()))
    assert len(capsys.readouterr().out.splitlines()) == 1
    show_forgotten(Screen(), Forgotten(4, 10, 6, (), {}, Rewritten(120, {}, (), checkpoint=True)))
    *_, remain = capsys.readouterr().out.splitlines()
    assert remain == "only PostgreSQL's WAL and backups may still have the bytes"
    partly = Rewritten(120, {"penstock.dead": 6}, ("penstock.queue",), checkpoint=True)
    show_forgotten(Screen(), Forgotten(4, 10, 6, (), {"leased": 1}, partly))
    _, _, kept, locked, again, unfinished = capsys.readouterr().out.splitlines()
    assert kept == "penstock.dead still has 6 deleted rows that an open transaction may read"
    assert locked == "penstock.queue was not rewritten, because an open transaction uses it"
    assert again.endswith("run this command again")
    assert "(1 leased), and stay" in unfinished
