"""The first steps of every task."""

import gc
from functools import cache


@cache
def settle() -> None:
    """Excludes imported modules from the garbage collection that Spark runs after each task.

    Once in each of Spark's Python processes. A collection took some 40 ms there, nearly all of it
    for modules. That is the time to read a tenth of a partition.
    """
    gc.collect()
    gc.freeze()
