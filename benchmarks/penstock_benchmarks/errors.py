"""How a benchmark fails."""

from penstock.errors import PenstockError


class BenchError(PenstockError):
    """The measurement cannot go on: the server refused a call, or a client is gone."""
