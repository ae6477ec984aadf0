"""The plain table, claimed and indexed by id: quicker at batches of one and of many."""

from __future__ import annotations

from penstock_benchmarks.peers.adapters import plain_table
from penstock_benchmarks.statements import plain_table as definition


class Adapter(plain_table.Adapter):
    schema = "penstock_bench_by_id"
    relations = (f"{schema}.%",)
    # With a million scheduled messages each claim would scan all of them.
    parts = ("clean",)

    def definition(self) -> str:
        return definition("id")
