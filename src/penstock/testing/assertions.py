"""What waits in a queue, and whether it is what should."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from penstock.client import Client
from penstock.client_async import AsyncClient
from penstock.insights import MAX_LIMIT
from penstock.message import Message

# None is a payload like any other.
ANYTHING: Final[Any] = type("Anything", (), {"__repr__": lambda self: "anything"})()
_FIELDS: Final = ("key", "group", "priority", "state", "headers", "max_attempts")
_SHOWN: Final = 20


def assert_enqueued(
    client: Client,
    queue: str,
    payload: Any = ANYTHING,
    *,
    count: int | None = None,
    includes: Mapping[str, Any] | None = None,
    where: Callable[[Message], bool] | None = None,
    **fields: Any,
) -> list[Message]:
    """The messages of the queue that are like this; there must be one, or exactly `count`.

    `payload` is the whole of it, `includes` some of the keys of an object; of `headers`, those
    given count. Other fields are `key`, `group`, `priority`, `state` and `max_attempts`; `where`
    is asked last. Messages that are scheduled, ready, leased or dead are looked at.
    """
    found = client.messages(queue, limit=MAX_LIMIT)
    return _judged(queue, found, count, payload, includes, where, fields)


async def assert_enqueued_async(
    client: AsyncClient,
    queue: str,
    payload: Any = ANYTHING,
    *,
    count: int | None = None,
    includes: Mapping[str, Any] | None = None,
    where: Callable[[Message], bool] | None = None,
    **fields: Any,
) -> list[Message]:
    """As `assert_enqueued`, for an AsyncClient."""
    found = await client.messages(queue, limit=MAX_LIMIT)
    return _judged(queue, found, count, payload, includes, where, fields)


def _judged(
    queue: str,
    found: Sequence[Message],
    count: int | None,
    payload: Any,
    includes: Mapping[str, Any] | None,
    where: Callable[[Message], bool] | None,
    fields: Mapping[str, Any],
) -> list[Message]:
    unknown = fields.keys() - set(_FIELDS)
    if unknown:
        raise TypeError(f"no field {', '.join(sorted(unknown))}; there are {', '.join(_FIELDS)}")
    alike = [
        message
        for message in found
        if (payload is ANYTHING or message.payload == payload)
        and (includes is None or _holds(message.payload, includes))
        and all(_same(message, name, value) for name, value in fields.items())
        and (where is None or where(message))
    ]
    if (count is None and not alike) or (count is not None and len(alike) != count):
        wanted = {"payload": payload, "includes": includes, "where": where, **fields}
        raise AssertionError(_complaint(queue, found, alike, count, wanted))
    return alike


def _same(message: Message, name: str, value: Any) -> bool:
    found = getattr(message, name)
    return _holds(found, value) if name == "headers" else bool(found == value)


def _holds(found: Any, wanted: Mapping[str, Any]) -> bool:
    return isinstance(found, Mapping) and all(
        name in found and found[name] == value for name, value in wanted.items()
    )


def _complaint(
    queue: str,
    found: Sequence[Message],
    alike: Sequence[Message],
    count: int | None,
    wanted: Mapping[str, Any],
) -> str:
    number = "at least one message" if count is None else f"{count} messages"
    like = ", ".join(
        f"{name} {value!r}" for name, value in wanted.items() if value not in (None, ANYTHING)
    )
    head = (
        f"queue {queue!r} should hold {number} with {like or 'any payload'}, and holds {len(alike)}"
    )
    if not found:
        return f"{head}: it is empty"
    lines = [f"  {each.id} {each.state}: {each.payload!r:.200}" for each in found[:_SHOWN]]
    more = [f"  and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return "\n".join([f"{head}. In it:", *lines, *more])
