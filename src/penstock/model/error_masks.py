r"""What differs from one message to the next in errors of one cause. Imports no other module.

`UserNotFound: no user '7f3a9c' at 10.0.0.7` becomes `UserNotFound: no user <value> at <address>`.
The patterns mean the same in Python and in Java (Spark), with ASCII classes.
"""

from __future__ import annotations

from typing import Final

# The type of an exception, which is kept as it is: S3Error is not S<n>Error.
TYPE: Final = r"^([A-Za-z_][A-Za-z0-9_.]*:)?"
# The line with the exception, below the last list of frames of a Python traceback: the first group
# if the exception is a group of exceptions, else the second. Text may precede the traceback.
TRACEBACK_LINE: Final = (
    r"(?s)^(?:.*\n)?(?:"
    r" *\+ Exception Group Traceback \(most recent call last\):\n"
    r"(?: *\|(?:  [^\n]*| ?)\n)* *\| ([^ \n][^\n]*)"
    r"|Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n|\n)*([^ \t\n][^\n]*))"
)
# Words with the letters a to f only. A random id that equals one of them is not masked.
WORDS: Final = (
    "aaaa|abba|abed|accede|acceded|aced|added|babe|bade|bead|beaded|bedded|beef|beefed"
    "|cabbed|cafe|cede|ceded|dabbed|dace|dada|dead|deaf|decade|decaf|deed|deeded|deface|defaced"
    "|ebadf|ebbed|edda|efface|effaced|facade|facaded|face|faced|fade|faded|feed"
)
_HEX: Final = r"[0-9a-fA-F]{1,4}"
_IP4: Final = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
# In full, or shortened with "::". A shortened address has a digit, which Dead::Beef has not.
_IP6: Final = (
    rf"(?:(?:{_HEX}:){{7}}{_HEX}|(?:{_HEX}:){{6}}{_IP4}"
    rf"|(?=[a-fA-F:]*[0-9])(?:{_HEX}(?::{_HEX}){{0,6}})?::(?:(?:{_HEX}:){{0,5}}(?:{_IP4}|{_HEX}))?)"
    r"(?:%[A-Za-z0-9]+)?"
)
# In this order: an address has numbers in it. An id gets the mask of a number, because one of the
# random ids of a cause has only digits: of ids with 8 hexadecimal digits, 2 %.
MASKS: Final = (
    (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<n>"),  # also of digits alone
    (r"(?<![A-Za-z0-9_])'[^']*'(?![A-Za-z0-9_])|\"[^\"]*\"|`[^`]*`", "<value>"),
    (
        r"\b0x[0-9a-fA-F]+\b|[a-z][a-z0-9+]*://[^\s,;)]+|[A-Za-z0-9_.+-]+@[A-Za-z0-9_.-]+"
        rf"|\[{_IP6}\](?::[0-9]+)?|(?<![A-Za-z0-9_:.]){_IP6}(?![A-Za-z0-9_:])"
        rf"|\b{_IP4}(?::[0-9]+)?\b",
        "<address>",
    ),
    # Words of six or more with letters and digits: 9f86d081, ord_2kq71z, job-77-retry.
    (r"\b(?=[A-Za-z0-9_-]*[A-Za-z])(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{6,}", "<n>"),
    # Hexadecimal words of four or five with a digit: 7f3a.
    (r"\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{4,5}\b", "<n>"),
    # Hexadecimal words without a digit, as part of a longer id too: order-bcfd.
    (
        rf"\b(?:[A-Za-z0-9]+[_-]){{0,4}}(?!(?i:{WORDS})(?![A-Za-z0-9]))"
        r"(?:[a-f]{4,}|[A-F]{4,})(?![A-Za-z0-9])(?:[_-][A-Za-z0-9]+){0,4}",
        "<n>",
    ),
    (r"[0-9]+(?:\.[0-9]+)*", "<n>"),
)
