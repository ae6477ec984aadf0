"""What sessions do, one step at a time: each verb on the database and on the model at once."""

from __future__ import annotations

from .operating import Operating
from .putting import Putting
from .settling import Settling


class Steps(Putting, Settling, Operating):
    """All of it."""
