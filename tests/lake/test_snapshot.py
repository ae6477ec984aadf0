"""Between two snapshots: every transaction that ended between them, and no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigurationError
from penstock.spark.snapshot_diff import NOTHING, Snapshot, Span, between


def holds(span: Span, xid: int) -> bool:
    if span.late:
        return xid in span.late
    return span.low <= xid < span.high and xid not in span.running


def sees(snapshot: Snapshot, xid: int) -> bool:
    return xid < snapshot.xmax and xid not in snapshot.running


@st.composite
def two_snapshots(draw: st.DrawFn) -> tuple[Snapshot, Snapshot]:
    """Transactions begin in order and end at any time; both are looked at on the way."""
    ends = draw(st.lists(st.integers(0, 12), min_size=1, max_size=12))
    ended_at = {3 + n: n + wait for n, wait in enumerate(ends)}
    first, second = sorted(draw(st.tuples(st.integers(0, 14), st.integers(0, 14))))

    def at(moment: int) -> Snapshot:
        begun = [xid for xid in ended_at if xid - 3 < moment]
        running = frozenset(xid for xid in begun if ended_at[xid] >= moment)
        return Snapshot(3 + len(begun), running)

    return at(first), at(second)


@given(two_snapshots())
def test_each_transaction_that_ended_between_is_in_exactly_one_span(
    pair: tuple[Snapshot, Snapshot],
) -> None:
    seen, window = pair
    spans = between(seen, window)
    for xid in range(3, 20):
        new = sees(window, xid) and not sees(seen, xid)
        assert sum(holds(span, xid) for span in spans) == (1 if new else 0)
    first_ones = [span.late[0] if span.late else span.low for span in spans]
    assert first_ones == sorted(first_ones)


def test_a_snapshot_is_written_as_postgres_writes_it() -> None:
    text = "10:20:10,14,19"
    assert str(Snapshot.parse(text)) == text
    assert str(Snapshot.parse("20:20:")) == "20:20:"
    assert str(NOTHING) == "1:1:"


@pytest.mark.parametrize("text", ["", "1:2", "a:b:c", "10:5:", "10:20:25"])
def test_what_is_not_a_snapshot_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not a snapshot"):
        Snapshot.parse(text)
