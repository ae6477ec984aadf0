"""What every task does first."""

import gc
from functools import cache


@cache
def settle() -> None:
    """Leaves what has been imported out of the garbage collection that Spark runs after each task.

    Once in each of Spark's Python processes. A collection took some 40 ms there, nearly all of it
    for modules that stay: as long as it takes to read a tenth of a partition.
    """
    gc.collect()
    gc.freeze()
