"""The measurements of a run, in a file from which an interrupted run can be continued."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from penstock_benchmarks import machine
from penstock_benchmarks.peers.figures import Table, figures
from penstock_benchmarks.peers.plan import FORMS
from penstock_benchmarks.peers.run import Run

WRITE_SECONDS = 10.0


class Results:
    """Rows by scenario. `parts` are the scenarios that are whole, and when each was measured."""

    def __init__(self, form: str, place: Path | None) -> None:
        self.parts: dict[str, dict[str, Any]] = {}
        self._form = form
        self._place = place
        self._kept: list[dict[str, Any]] = []
        self._run: Run
        self._about: dict[str, Any] = {}
        self._was: dict[str, Any] | None = None
        self._again: Sequence[str] = ()
        self._written_at = 0.0
        self._busy_before = busy()

    def load(self, again: Sequence[str]) -> None:
        """Take over what a file has, but for these scenarios."""
        self._again = again
        if self._place is None or not self._place.exists():
            raise click.UsageError("--resume needs --json with the file of a run.")
        self._was = was = json.loads(self._place.read_text(encoding="utf-8"))
        if was.get("form") != self._form:
            raise click.UsageError(f"{self._place} is of the form {was.get('form')!r}.")
        self.parts = {name: part for name, part in was["parts"].items() if name not in again}
        self._kept = [row for row in was["rows"] if row["part"] in self.parts]
        self._busy_before = max(self._busy_before or 0, was["machine"]["busy_before"] or 0)

    def begin(self, run: Run) -> None:
        """All are installed: say who and what is measured."""
        self._run = run
        run.on_row = self._now_and_then
        self._about = {
            "machine": {**machine.machine(), "busy_before": self._busy_before},
            "versions": machine.versions(),
            "server": run.database.about(),
            "plan": json.loads(json.dumps(FORMS[self._form].__dict__)),
            "peers": {
                each.name: {key: each.about[key] for key in ("kind", "version", "settings")}
                for each in run.contenders
            },
        }
        if self._was is None:
            return
        for key in ("server", "peers"):
            if self._was[key] != self._about[key]:
                raise click.UsageError(f"{self._place} was measured with another {key}.")
        if of_others(self._was["plan"], self._again) != of_others(self._about["plan"], self._again):
            raise click.UsageError(f"{self._place} was measured with another plan.")

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Everything that is measured in the block belongs to this scenario."""
        self._run.part = name
        started_at, began = machine.now(), time.monotonic()
        yield
        seconds = round(time.monotonic() - began, 1)
        self.parts[name] = {"started_at": started_at, "seconds": seconds}
        self.write()

    def _now_and_then(self) -> None:
        """A run that is interrupted leaves its results so far."""
        if time.monotonic() - self._written_at > WRITE_SECONDS:
            self.write()

    def write(self) -> dict[str, Any]:
        self._written_at = time.monotonic()
        rows = [*self._kept, *self._run.rows]
        kinds = {each.name: each.kind for each in self._run.contenders}
        document = {
            "bench": "peers",
            "form": self._form,
            "started_at": min((part["started_at"] for part in self.parts.values()), default=""),
            "finished_at": machine.now(),
            "seconds": sum(part["seconds"] for part in self.parts.values()),
            **self._about,
            "parts": self.parts,
            "notes": (self._was or {}).get("notes", []),
            "figures": figures(Table(rows, kinds)),
            "rows": rows,
        }
        if self._place is not None:
            write(self._place, document)
        return document


def of_others(plan: dict[str, Any], again: Sequence[str]) -> dict[str, Any]:
    """What a plan says of all but these scenarios, which may be measured in another way."""
    return {key: value for key, value in plan.items() if key.partition("_")[0] not in again}


def busy(seconds: float = 1.0) -> float | None:
    """The share of all processors that is in use before the run. Linux only."""
    times = Path("/proc/stat")
    if not times.exists():
        return None

    def read() -> tuple[int, int]:
        spent = [int(each) for each in times.read_text().split("\n", 1)[0].split()[1:9]]
        return sum(spent), spent[3] + spent[4]

    before = read()
    time.sleep(seconds)
    total, idle = (after - then for after, then in zip(read(), before, strict=True))
    return round(1 - idle / total, 3) if total else None


def write(place: Path, document: dict[str, Any]) -> None:
    """JSON with one line for each row, which is short and easy to compare."""
    rows = ",\n".join(json.dumps(row) for row in document["rows"])
    rest = json.dumps({**document, "rows": []}, indent=1)
    assert rest.endswith('"rows": []\n}')
    text = rest.removesuffix("[]\n}") + f"[\n{rows}\n]\n}}\n"
    # Never half a file: a run may be ended at any time.
    partial = place.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(place)
