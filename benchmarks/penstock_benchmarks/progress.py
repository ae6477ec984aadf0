"""Where a benchmark stands, on stderr, so that its tables can be piped away."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


class Progress:
    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task = bar.add_task("getting ready", total=None)

    def plan(self, steps: int) -> None:
        """How many steps there will be, as far as is known yet."""
        self._bar.update(self._task, total=steps)

    def say(self, what: str) -> None:
        self._bar.update(self._task, description=what)

    def step(self) -> None:
        self._bar.advance(self._task)


@contextmanager
def progress() -> Iterator[Progress]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Redrawn rarely: the bar must not take the processor from what it measures.
    bar = Bar(*columns, console=Console(stderr=True), refresh_per_second=2, transient=True)
    with bar:
        yield Progress(bar)
