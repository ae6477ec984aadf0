"""What `bench contracts` has measured, and how it is told."""

from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

from penstock_benchmarks.comparison import Comparison
from penstock_benchmarks.crew import Window
from penstock_benchmarks.options import Options
from penstock_benchmarks.report import Figures, Findings, Row, rate_text, ratio_text

# The claim of the mdb_queue contract has its number in its text.
BATCH = 10
_WHAT = {
    "pgmq_cycle": "cycle",
    "pgmq_cycle_by_one": "cycle, calls one by one",
    "pgmq_cycle_pinned": "cycle, pinned",
    "pgmq_cycle_scheduled_1m": "cycle, delayed",
}


_METHOD = (
    "Cycle: pgmq.send_batch of {batch}, pgmq.read of {batch} for 30 s, pgmq.delete of the result, "
    "in three commits. _by_one: pgmq.send {batch} times, the same read, pgmq.delete of each that "
    "came, every call a commit. Payloads of 200 bytes, synchronous commit off, {clients} "
    "clients, compared with a stand-in of PGMQ's shape (pgmq_table.sql), called alike. Both: in "
    "turns of a minute in the full form, A B B A, of which the last two thirds count: the pace "
    "either settles at, with autovacuum as the server has it. _pinned: totals of the last windows "
    "under a transaction that holds the horizon, after {messages:,} messages went through Penstock "
    "under it. _scheduled_1m: totals with {scheduled:,} messages delayed by hours in the queue. "
    "mdb_claim_over_native: the median time of penstock.claim / that of the claim statement of "
    "mdb_queue, 10 messages each, one client, in turns; enqueueing and acks are not timed."
)


class Side(StrEnum):
    PGMQ = "pgmq"
    STANDIN = "standin"


@dataclass
class Pairs:
    """Windows of both sides, in turn."""

    windows: dict[Side, list[Window]] = field(default_factory=lambda: {side: [] for side in Side})

    def __len__(self) -> int:
        return len(self.windows[Side.PGMQ])

    def messages(self, side: Side) -> int:
        return sum(window.messages for window in self.windows[side])

    def rate(self, side: Side, uncounted: int = 0) -> float:
        """Of all windows together, but for the first."""
        counted = self.windows[side][uncounted:]
        return sum(w.messages for w in counted) / max(sum(w.seconds for w in counted), 1e-9)

    def settled(self, side: Side) -> float:
        return self.rate(side)

    @property
    def ratio(self) -> float | None:
        theirs = self.rate(Side.STANDIN)
        return self.rate(Side.PGMQ) / theirs if theirs else None

    def as_json(self) -> list[dict[str, Any]]:
        return [window.as_json() for side in Side for window in self.windows[side]]


class Turns(list[Pairs]):
    """Long turns of either side, of which the first third is the way to the settled pace."""

    def rates(self, side: Side) -> tuple[float, ...]:
        return tuple(turn.rate(side, len(turn) // 3) for turn in self)

    def settled(self, side: Side) -> float:
        return median(self.rates(side))

    @property
    def ratio(self) -> float | None:
        return Comparison(self.rates(Side.PGMQ), self.rates(Side.STANDIN)).ratio


@dataclass
class Claims:
    """The times of claims of ten, in turns."""

    native: list[float] = field(default_factory=list)
    mdb: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        return median(self.native) / median(self.mdb) if self.mdb else None


@dataclass
class Found:
    """What was measured, of what was asked for."""

    options: Options
    turns: dict[str, Turns] = field(default_factory=dict)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    claims: Claims | None = None
    reached: bool = True

    def findings(self) -> Findings:
        cycles: dict[str, Turns | Pairs] = {**self.turns, **self.pairs}
        cycles.pop("pin", None)
        figures: Figures = {name: each.ratio for name, each in cycles.items()}
        rows = [_row(_WHAT[name], each) for name, each in cycles.items()]
        samples: dict[str, Any] = {name: pairs.as_json() for name, pairs in self.pairs.items()}
        samples |= {name: [turn.as_json() for turn in turns] for name, turns in self.turns.items()}
        if self.claims is not None:
            figures["mdb_claim_over_native"] = self.claims.ratio
            rows += _claim_rows(self.claims)
            samples["claims"] = [{"native": len(self.claims.native), "mdb": len(self.claims.mdb)}]
        method = _METHOD.format(
            batch=BATCH,
            clients=self.options.clients,
            messages=self.options.messages,
            scheduled=2 * self.options.messages,
        )
        headings = ("Penstock", "PGMQ's shape", "Penstock / PGMQ's shape")
        return Findings(method, figures, rows, self._notes(), samples, headings=headings)

    def _notes(self) -> list[str]:
        notes = []
        if not self.reached:
            passed = self.pairs["pin"].messages(Side.PGMQ)
            notes.append(
                f"only {passed:,} messages passed through Penstock before the pinned figure was "
                f"taken, not {self.options.messages:,}: leave --seconds out, or make it longer"
            )
        if self.options.messages < 500_000 and "pgmq_cycle_scheduled_1m" in self.pairs:
            notes.append(
                f"pgmq_cycle_scheduled_1m was measured with {2 * self.options.messages:,} messages"
            )
        for name, pairs in self.pairs.items():
            if not pairs.messages(Side.STANDIN):
                notes.append(f"{name}: PGMQ's shape did not finish a single cycle in these windows")
        return notes


def _row(what: str, measured: Turns | Pairs) -> Row:
    ours, theirs = (rate_text(measured.settled(side)) for side in Side)
    return Row(what, ours, theirs, ratio_text(measured.ratio))


def _claim_rows(claims: Claims) -> list[Row]:
    return [
        Row("claim of mdb_queue", _milliseconds(claims.mdb), ""),
        Row("  penstock.claim", _milliseconds(claims.native), ""),
        Row("  penstock.claim / it, in time", ratio_text(claims.ratio), ""),
    ]


def _milliseconds(times: list[float]) -> str:
    return f"{median(times) * 1000:.3f} ms" if times else "not measured"
