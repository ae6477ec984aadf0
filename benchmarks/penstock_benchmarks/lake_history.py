"""What there is to land."""

from penstock_benchmarks.progress import Progress
from penstock_benchmarks.scratch import Scratch

QUEUE = "bench-lake"
_PIECE = 10_000


def fill_history(place: Scratch, progress: Progress, count: int) -> None:
    """History is these finished messages, and nothing else."""
    progress.say(f"{count:,} rows of history")
    place.run("lake.forget")
    in_pieces(place, "lake.finished", count)
    place.run("lake.analyze")


def in_pieces(place: Scratch, name: str, count: int) -> None:
    for first in range(1, count + 1, _PIECE):
        place.run(name, queue=QUEUE, first=first, last=min(first + _PIECE - 1, count))
