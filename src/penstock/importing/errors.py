"""How an import fails."""

from penstock.errors import ConfigurationError


class ImportSourceError(ConfigurationError):
    """What was to be imported is not there, or cannot be put into the queue."""
