"""Ratios that hold on a machine that others use too."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Comparison:
    """Two series whose n-th samples were taken one right after the other."""

    left: tuple[float, ...]
    right: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        """The median of the ratios of neighbours, None where nothing was measured.

        Not the ratio of the medians: what slows the machine down for a while slows both
        neighbours down, and so falls out of each ratio.
        """
        ratios = self.ratios
        return median(ratios) if ratios else None

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.left, self.right, strict=True) if b > 0]


def quotient(over: Sequence[float], under: Sequence[float]) -> float | None:
    """The ratio of the medians, for series that have no neighbours."""
    if not over or not under or median(under) == 0:
        return None
    return median(over) / median(under)


def ends(series: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """The last quarter and the first quarter of a series, at least one sample each."""
    count = max(1, len(series) // 4)
    return series[-count:], series[:count]
