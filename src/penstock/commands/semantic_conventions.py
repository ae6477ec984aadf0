"""Names of OpenTelemetry's semantic conventions for messaging, as far as Penstock uses them.

A test compares them with the published registry, in opentelemetry-semantic-conventions. Names that
begin with `penstock.` are our own.
"""

from __future__ import annotations

from typing import Final

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION_NAME: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
MESSAGE_COUNT: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"

OPERATION_DURATION: Final = "messaging.client.operation.duration"
SENT_MESSAGES: Final = "messaging.client.sent.messages"
PROCESS_DURATION: Final = "messaging.process.duration"
CONSUMED_MESSAGES: Final = "messaging.client.consumed.messages"

SEND: Final = "send"
RECEIVE: Final = "receive"
PROCESS: Final = "process"
SETTLE: Final = "settle"
# The bounds that the conventions prescribe.
SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


def attributes_of(queue: str | None, name: str, operation_type: str) -> dict[str, str]:
    """The attributes that spans and metrics of an operation share. The queue may be unknown."""
    found = {SYSTEM: "penstock", OPERATION_NAME: name, OPERATION_TYPE: operation_type}
    return found if queue is None else {**found, DESTINATION_NAME: queue}


def error_type(error: BaseException) -> str:
    """The class of the error."""
    kind = type(error)
    builtin = kind.__module__ == "builtins"
    return kind.__qualname__ if builtin else f"{kind.__module__}.{kind.__qualname__}"
