"""The measurement of the pages: it finds all its addresses, on a tiny share of its data."""

from __future__ import annotations

import psycopg
from tests.ui import measure, scale


def test_every_page_that_is_measured_answers(dsn: str) -> None:
    scale.build(dsn, share=0.0005)
    found = measure.measure(dsn, times=1, warm_ups=0)
    with psycopg.connect(dsn) as db:
        for table in ("heartbeat", "schedule", "activity_log", "subscription", "batch", "bulk_act"):
            row = db.execute(f"select count(*) from penstock.{table}").fetchone()
            assert row is not None
            assert row[0] >= 50, table
        row = db.execute("select count(*) from penstock.heartbeats where alive").fetchone()
        assert row == (100,)
    assert len(found) == len(measure.PAGES)
    assert all(row["queries"] for page, row in found.items() if page != "/runbooks")
    assert {measure.limit_of(page) for page in found} == {measure.PAGE_MS, measure.SEARCH_MS}
