"""Assertions about the messages in a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client
from penstock.commands.read.paging import MAX_LIMIT
from penstock.model.message import Message

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
    """Check that a queue contains matching messages that are scheduled, ready, leased or dead.

    Args:
        client: A client of the database.
        queue: The name of the queue.
        payload: The complete payload. The default matches any payload.
        count: The exact number of matching messages. The default is at least one.
        includes: Keys and values that the payload, a JSON object, must contain.
        where: A function that gets a `Message` and returns whether it matches.
        **fields: Values of `key`, `group`, `priority`, `state`, `max_attempts` or `headers`. Of the
            headers, only the given ones are compared.

    Returns:
        The matching messages.

    Raises:
        AssertionError: The number of matching messages is wrong. The text lists the messages.
        TypeError: A field has another name.
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
    """Like `assert_enqueued`, for an AsyncClient."""
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
        raise TypeError(f"no field {', '.join(sorted(unknown))}; allowed: {', '.join(_FIELDS)}")
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
