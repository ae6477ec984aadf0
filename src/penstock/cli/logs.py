"""Logs as text, or as one JSON document for each line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up(level: str, as_json: bool) -> None:
    """Write all log records from `level` on to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class JsonLines(logging.Formatter):
    """The fields of a record, including those of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extra(record),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str, ensure_ascii=False)


class Lines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        fields = " ".join(f"{name}={value}" for name, value in extra(record).items())
        line = super().formatMessage(record)
        return f"{line} ({fields})" if fields else line


def extra(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that a caller added to the record."""
    return {name: value for name, value in vars(record).items() if name not in _USUAL}
