"""The processor time of this process and of all that it has started."""

import os
from pathlib import Path

# The fields of /proc/PID/stat after the name: the parent, and the times of the process and of
# children that have ended.
_PARENT = 1
_TIMES = slice(11, 15)


def processor_seconds() -> float | None:
    """None where there is no /proc."""
    if not Path("/proc/self/stat").exists():
        return None
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        process = int(file.parent.name)
        parents[process] = int(fields[_PARENT])
        ticks[process] = sum(map(int, fields[_TIMES]))
    mine = {process for process in parents if _is_mine(process, parents)}
    return sum(ticks[process] for process in mine) / os.sysconf("SC_CLK_TCK")


def _is_mine(process: int, parents: dict[int, int]) -> bool:
    while process in parents and process != os.getpid():
        process = parents[process]
    return process == os.getpid()
