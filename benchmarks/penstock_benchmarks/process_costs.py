"""What this process and its descendants have used: processor time, and bytes that were read."""

import os
from pathlib import Path

# The fields of /proc/PID/stat after the name: the parent, and the times of the process and of
# children that have ended.
_PARENT = 1
_TIMES = slice(11, 15)


def processor_seconds() -> float | None:
    """None where there is no /proc."""
    found = _processes()
    if found is None:
        return None
    ticks = sum(sum(map(int, fields[_TIMES])) for fields in found.values())
    return ticks / os.sysconf("SC_CLK_TCK")


def bytes_read() -> int | None:
    """Bytes of files and pipes, from the disk or from its cache. Sockets do not count.

    None where there is no /proc.
    """
    found = _processes()
    return None if found is None else sum(map(_read_by, found))


def _processes() -> dict[int, list[str]] | None:
    """The fields of /proc/PID/stat of this process and of its descendants."""
    if not Path("/proc/self/stat").exists():
        return None
    every: dict[int, list[str]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        every[int(file.parent.name)] = fields
    parents = {process: int(fields[_PARENT]) for process, fields in every.items()}
    return {process: every[process] for process in every if _is_mine(process, parents)}


def _is_mine(process: int, parents: dict[int, int]) -> bool:
    while process in parents and process != os.getpid():
        process = parents[process]
    return process == os.getpid()


def _read_by(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/io").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return int(lines[0].removeprefix("rchar: "))
