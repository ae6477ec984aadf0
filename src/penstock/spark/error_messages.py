"""Errors of Spark in one line. Spark's own reports have pages of Java."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from penstock import errors
from penstock.errors import (
    DamagedFileError,
    DatabaseUnavailableError,
    LakeError,
    PenstockError,
    from_database_error,
)


class TaskFailedError(LakeError):
    """A task of Spark failed for another reason, such as a lost executor."""


_FULL: Final = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
# The last line of a traceback from a task.
_OURS: Final = re.compile(r"^(?:penstock\.errors\.)?(\w+Error): (.+)$", re.MULTILINE)
_JAVA: Final = re.compile(r"^(?:Caused by: )?[\w.$]+(?:Exception|Error): (.+)$", re.MULTILINE)
# A Parquet file that Spark could not read or find.
_UNREADABLE: Final = re.compile(r"(?:FAILED_READ_FILE|PATH_NOT_FOUND)[^\n]*?\w+:/+(\S+\.parquet)")
# A value for which an expression has no result. The same rows give the same error again.
_DATA_ERROR: Final = re.compile(r"SQLSTATE: 22")
_CORRECT: Final = (
    "Correct the rule, the function of a gold table or the query that computes this for a row."
)
_GONE: Final = re.compile(r"Connection refused|Answer from Java side is empty|JVM", re.IGNORECASE)


@contextmanager
def explained(root: str, *passed: type[Exception]) -> Iterator[None]:
    """For work on a lake: every failure is raised as one of our errors, with one line of text.

    Errors of the types `passed` are raised as they are.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (PenstockError, *passed)):
            raise
        if isinstance(error, psycopg.Error) and (known := from_database_error(error)):
            raise known from error
        raise explain(error, root) from error


def explain(error: Exception, root: str) -> PenstockError:
    text = str(error)
    if _FULL.search(text):
        return LakeError(
            f"there is no space left for the lake at {root}",
            hint="The step was not done, and nothing of it is in the lake. Make room, and run "
            "it again. It continues from there.",
        )
    if type(error).__module__.startswith("py4j") and _GONE.search(text):
        return LakeError(
            "the Java process of Spark has ended", hint="Run it again. It continues from there."
        )
    if ours := _from_task(text):
        return ours
    if unreadable := _UNREADABLE.search(text):
        return _damaged(f"/{unreadable[1]}", root)
    reason = _reason(text) or type(error).__name__
    if type(error).__module__.startswith(("pyspark", "py4j")):
        hint = _CORRECT if _DATA_ERROR.search(reason) else "Run it again."
        return TaskFailedError(f"a task of Spark failed: {reason}", hint=hint)
    if isinstance(error, OSError):
        return LakeError(f"the lake at {root} cannot be used: {error}")
    return LakeError(f"unexpected {type(error).__name__}: {reason}", hint="Run it with --debug.")


def refusal(error: Exception) -> str:
    """Why Spark refuses a query: the first sentence. It adds the whole query and its plan."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(r"\s*SQLSTATE:.*", "", lines[0]) if lines else type(error).__name__


def _damaged(path: str, root: str) -> DamagedFileError:
    name = path.partition(f"{root.rpartition('://')[2]}/")[2] or path
    return DamagedFileError(
        f"{name} cannot be read",
        hint="Run `penstock lake verify` to see every damaged file, and `penstock lake repair` "
        "to restore them.",
        path=name,
    )


def _from_task(text: str) -> PenstockError | None:
    """One of our errors that a task raised, recognized by its text."""
    for name, words in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            return kind(words)
        if name in ("OperationalError", "InterfaceError"):
            return DatabaseUnavailableError(f"the database is not available: {words}")
    return None


def _reason(text: str) -> str:
    """The innermost line with a message."""
    for pattern in (_OURS, _JAVA):
        if found := pattern.findall(text):
            last = found[-1]
            return last if isinstance(last, str) else f"{last[0]}: {last[1]}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""
