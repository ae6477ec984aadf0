"""Names of OpenTelemetry's semantic conventions for messaging, as far as the worker uses them.

A test compares them with the published registry, in opentelemetry-semantic-conventions. Names that
begin with `penstock.` are our own.
"""

from __future__ import annotations

from typing import Final

from penstock.worker.outcomes import Outcome

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION_NAME: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
ERROR_TYPE: Final = "error.type"

PROCESS_DURATION: Final = "messaging.process.duration"
CONSUMED_MESSAGES: Final = "messaging.client.consumed.messages"

PROCESS: Final = "process"
# The bounds that the conventions prescribe.
SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


def process_attributes(queue: str) -> dict[str, str]:
    """The attributes that spans and metrics of a run share."""
    return {
        SYSTEM: "penstock",
        OPERATION_NAME: PROCESS,
        OPERATION_TYPE: PROCESS,
        DESTINATION_NAME: queue,
    }


def error_type(error: BaseException) -> str:
    """The class of the error. An outcome such as Retry stands for the error that caused it."""
    cause = (error.__cause__ or error.__context__ or error) if isinstance(error, Outcome) else error
    kind = type(cause)
    builtin = kind.__module__ == "builtins"
    return kind.__qualname__ if builtin else f"{kind.__module__}.{kind.__qualname__}"
