r"""What differs from one message to the next in errors of one cause. Imports no other module.

`UserNotFound: no user '7f3a9c' at 10.0.0.7` becomes `UserNotFound: no user <value> at <address>`.
The patterns mean the same in Python and in Java (Spark), with ASCII classes.
"""

from __future__ import annotations

from typing import Final

# The type of an exception, which is kept as it is: S3Error is not S<n>Error.
TYPE: Final = r"^([A-Za-z_][A-Za-z0-9_.]*:)?"
# The line with the exception, below the last list of frames of a Python traceback.
TRACEBACK_LINE: Final = (
    r"(?s)^\s*Traceback \(most recent call last\):"
    r"(?:.*\nTraceback \(most recent call last\):)?\n(?:[ \t][^\n]*\n|\n)*([^\n]+)"
)
# In this order: an address has numbers in it.
MASKS: Final = (
    (r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "<id>"),
    (r"(?<![A-Za-z0-9_])'[^']*'(?![A-Za-z0-9_])|\"[^\"]*\"|`[^`]*`", "<value>"),
    (
        r"\b0x[0-9a-fA-F]+\b|[a-z][a-z0-9+]*://[^\s,;)]+|[A-Za-z0-9_.+-]+@[A-Za-z0-9_.-]+"
        r"|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]+)?\b",
        "<address>",
    ),
    # Words of six or more with letters and digits: 9f86d081, ord_2kq71z, job-77-retry.
    (r"\b(?=[A-Za-z0-9_-]*[A-Za-z])(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{6,}", "<id>"),
    (r"[0-9]+(?:\.[0-9]+)*", "<n>"),
)
