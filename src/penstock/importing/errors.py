"""The error of an import."""

from penstock.errors import ConfigurationError


class ImportSourceError(ConfigurationError):
    """The source of an import does not exist, or a row cannot be enqueued."""
