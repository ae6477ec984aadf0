"""The fields of both planes: their types, ranges, and descriptions for OpenAPI.

msgspec checks these declarations while it reads a body. `extra_json_schema` adds rules that the
database checks.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta

NAME_PATTERN: Final = "^[a-z0-9._-]{1,128}$"
_NO_NUL = {"pattern": "^[^\\u0000]*$"}


def _text(low: int, high: int, what: str) -> Meta:
    return Meta(min_length=low, max_length=high, description=what, extra_json_schema=dict(_NO_NUL))


def _whole(low: int, high: int, what: str) -> Meta:
    return Meta(ge=low, le=high, description=what)


Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=NAME_PATTERN,
        description="1 to 128 lowercase letters, digits, - _ .; `<topic>.dlq` has dead letters",
    ),
]
NewName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=NAME_PATTERN,
        description="1 to 128 lowercase letters, digits and - _ .; not ending in .dlq",
        # The database refuses reserved names with a better message than a pattern.
        extra_json_schema={"x-pattern": r"^(?!.*\.dlq$)(?!penstock\.)[a-z0-9._-]{1,128}$"},
    ),
]
PlainName: TypeAlias = Annotated[
    str, Meta(pattern=NAME_PATTERN, description="1 to 128 lowercase letters, digits, - _ .")
]
Id: TypeAlias = Annotated[
    str, Meta(pattern="^[1-9][0-9]{0,17}$", description="the message's id, a string")
]
Cursor: TypeAlias = Annotated[
    str, Meta(pattern="^[1-9][0-9]{0,17}$", description="`next` of the previous page")
]
LeaseToken: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^([0-9]{1,18}|[1-6][0-9]{18})$",  # fits into a bigint
        description="the token of the lease from dequeue, a string",
    ),
]
Key: TypeAlias = Annotated[str, _text(1, 1024, "at most one waiting message has it")]
Group: TypeAlias = Annotated[str, _text(1, 1024, "delivered in order, one at a time")]
ErrorText: TypeAlias = Annotated[str, Meta(max_length=100_000, description="the error")]
Filter: TypeAlias = Annotated[str, _text(1, 1024, "text to look for")]
Worker: TypeAlias = Annotated[str, _text(1, 200, "the name of the consumer, for display")]
WorkerName: TypeAlias = Annotated[str, _text(1, 1024, "the name of a worker")]
Payload: TypeAlias = Annotated[
    bytes,
    Meta(
        description="base64 of the bytes",
        extra_json_schema={
            "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
        },
    ),
]
Metadata: TypeAlias = Annotated[dict[str, Any], Meta(description="headers of the message")]

Priority: TypeAlias = Annotated[int, _whole(-9, 9, "higher is delivered first")]
Count: TypeAlias = Annotated[int, _whole(1, 1000, "the largest number of messages")]
# The same longest delay as in SQL: 100 years of 360 days.
_LONGEST = 3_110_400_000
Delay: TypeAlias = Annotated[
    float,
    Meta(ge=0, le=_LONGEST, description="seconds until it is visible, such as 0.25 or 86400"),
]
VisibleAt: TypeAlias = Annotated[
    datetime,
    Meta(
        tz=True,
        description="the time from which it is visible, within 100 years; not with delay_seconds",
    ),
]
Wait: TypeAlias = Annotated[int, _whole(0, 20, "seconds to wait for a message")]
LeaseSeconds: TypeAlias = Annotated[
    int, _whole(1, 43_200, "how long a claimed message is hidden from other consumers, in seconds")
]
Ttl: TypeAlias = Annotated[
    float, Meta(ge=0.001, le=_LONGEST, description="seconds until it expires")
]
ScheduleTtl: TypeAlias = Annotated[
    int, _whole(1, 315_360_000, "seconds until a message of the schedule expires")
]
TopicTtl: TypeAlias = Annotated[
    int, _whole(0, 315_360_000, "seconds until its messages expire; 0 means never")
]
MaxRetries: TypeAlias = Annotated[int, _whole(0, 99, "n retries are n + 1 attempts")]
MaxAttempts: TypeAlias = Annotated[int, _whole(1, 100, "attempts until it becomes a dead letter")]
MaxDepth: TypeAlias = Annotated[
    int,
    _whole(
        0, 1_000_000_000, "the largest number of pending and processing messages; 0 means no limit"
    ),
]
ThroughputLimit: TypeAlias = Annotated[
    int, _whole(0, 1_000_000, "messages delivered in a second; 0 means no limit")
]
MaxInFlight: TypeAlias = Annotated[
    int, _whole(0, 1_000_000, "messages processed at once; 0 means no limit")
]
MaxPayloadBytes: TypeAlias = Annotated[int, _whole(1, 104_857_600, "the largest payload in bytes")]
KeepHistory: TypeAlias = Annotated[
    int, _whole(0, 3650, "days for which finished messages are kept; 0 means none")
]
Limit: TypeAlias = Annotated[int, _whole(1, 1000, "the number of items on a page")]
Age: TypeAlias = Annotated[int, _whole(0, 3_153_600_000, "an age in seconds")]
OnConflict: TypeAlias = Literal["replace", "skip", "error"]
Unique: TypeAlias = Literal["waiting", "unfinished"]
Status: TypeAlias = Literal["pending", "processing", "deleted", "failed", "expired"]
BackoffKind: TypeAlias = Literal["exponential", "linear", "constant"]
BackoffBase: TypeAlias = Annotated[float, Meta(ge=0, le=86_400, description="the first wait")]
BackoffMax: TypeAlias = Annotated[float, Meta(ge=0, le=604_800, description="the longest wait")]
BackoffJitter: TypeAlias = Annotated[
    float, Meta(ge=0, le=1, description="random share of the delay")
]
Ids: TypeAlias = Annotated[list[Id], Meta(min_length=1, max_length=1000)]
ManyIds: TypeAlias = Annotated[list[Id], Meta(min_length=1, max_length=10_000)]
MaxCount: TypeAlias = Annotated[int, _whole(0, 1_000_000, "the largest number of messages")]
PurgeCount: TypeAlias = Annotated[int, _whole(1, 1_000_000_000, "the largest number of messages")]
PerSecond: TypeAlias = Annotated[
    float, Meta(ge=0.001, le=1_000_000, description="messages that become visible in a second")
]
