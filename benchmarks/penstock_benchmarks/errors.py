"""How a benchmark fails."""

from penstock.errors import PenstockError


class BenchError(PenstockError):
    """The measurement cannot continue: the server refused a call, or a client has ended."""
