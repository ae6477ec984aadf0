"""The verbs that `penstock.http` sends to the server: their names, arguments and encoding. Client
and server share this module, which does no I/O.

A command is sent as its verb and its arguments; the server has the statement. Which scope a verb
needs, and for which queue, is declared in `server/auth/permissions.py`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final

from penstock.commands import read, write
from penstock.commands.arguments import INT4, INT8, optional_text, refuse
from penstock.commands.command import Command

PROTOCOL: Final = "1"
"""Changes with the arguments and results of the verbs. Other clients get an error. To keep them
working, give a verb with other arguments or results a new name, and keep the old one."""
_ARGUMENT: Final = re.compile(r"%\((\w+)\)s::(\w+(?:\[\])?)")


@dataclass(frozen=True, slots=True)
class Verb:
    """A statement by name, with the types of its arguments."""

    name: str
    sql: str
    types: Mapping[str, str]


@cache
def verbs() -> dict[str, Verb]:
    """Every verb, by its name."""
    return {verb.name: verb for verb in _all()}


@cache
def by_statement() -> dict[str, Verb]:
    return {verb.sql: verb for verb in verbs().values()}


def _all() -> list[Verb]:
    lease = (1, 1)

    def verb(name: str, command: Command[Any]) -> Verb:
        return Verb(name, command.sql, dict(_ARGUMENT.findall(command.sql)))

    o, i = write, read
    return [
        verb("enqueue", o.enqueue("q", 1)),
        verb("enqueue_many", o.enqueue_many("q", [1])),
        verb("claim", o.claim("q")),
        verb("ack", o.ack(lease)),
        verb("ack_many", o.ack_many([lease])),
        verb("nack", o.nack(lease)),
        verb("nack_many", o.nack_many([lease])),
        verb("reject", o.reject(lease)),
        verb("reject_many", o.reject_many([lease])),
        verb("snooze", o.snooze(lease)),
        verb("snooze_many", o.snooze_many([lease])),
        verb("extend", o.extend(lease)),
        verb("extend_many", o.extend_many([lease])),
        verb("cancel", o.cancel(1)),
        verb("redrive", o.redrive("q")),
        verb("replay", o.replay(1)),
        verb("move", o.move([1], "q")),
        verb("set_priority", o.set_priority([1], 1)),
        verb("create_queue", o.create_queue("q")),
        verb("set_queue", o.set_queue("q")),
        verb("drop_queue", o.drop_queue("q")),
        verb("pause", o.pause("q")),
        verb("resume", o.resume("q")),
        verb("purge", o.purge("q")),
        verb("undo_purge", o.undo_purge("q")),
        verb("maintain", o.maintain()),
        verb("command_worker", o.command_worker("w", "quiet")),
        verb("create_schedule", o.create_schedule("s", "q", "@daily")),
        verb("set_schedule", o.set_schedule("s", {})),
        verb("drop_schedule", o.drop_schedule("s")),
        verb("pause_schedule", o.pause_schedule("s")),
        verb("resume_schedule", o.resume_schedule("s")),
        verb("fire_schedule", o.fire_schedule("s")),
        verb("fire_schedules", o.fire_schedules()),
        verb("next_fires", o.next_fires("@daily")),
        verb("queues", i.queues()),
        verb("stats", i.stats("q")),
        verb("message", i.message(1)),
        verb("messages", i.messages()),
        verb("history", i.messages(state="done")),
        verb("workers", i.workers()),
        verb("schedules", i.schedules()),
        verb("schedule_page", i.schedule_page()),
        verb("schema_version", i.schema_version()),
    ]


def pack(value: Any) -> Any:
    """Encode a value as JSON. Types that JSON lacks become an object with one key."""
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    if isinstance(value, timedelta):
        return {"microseconds": value // timedelta(microseconds=1)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Decimal):
        return {"number": str(value)}
    if isinstance(value, list | tuple):
        return [pack(each) for each in value]
    return value


def unpack(value: Any) -> Any:
    """The decoded value. ValueError, TypeError or OverflowError if the text is not valid."""
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    [(kind, inner)] = value.items()
    return _UNPACK[kind](inner)


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a time without a zone")
    return found


_UNPACK: Final[dict[str, Any]] = {
    "time": _time,
    "microseconds": lambda count: timedelta(microseconds=count),
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "number": Decimal,
}


def unpack_arguments(verb: Verb, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, with the types that the statement needs."""
    if arguments.keys() != verb.types.keys():
        raise refuse("arguments", sorted(arguments), ", ".join(sorted(verb.types)))
    return {name: _unpacked(name, verb.types[name], arguments[name]) for name in verb.types}


def _unpacked(name: str, type_: str, packed: Any) -> Any:
    try:
        value = unpack(packed)
    except (ValueError, TypeError, KeyError, OverflowError, ArithmeticError, RecursionError):
        raise refuse(name, packed, f"a value of type {type_}") from None
    if value is None:
        return None
    if type_.endswith("[]"):
        if not isinstance(value, list):
            raise refuse(name, packed, f"a list for {type_}")
        return [_checked(name, type_[:-2], each) for each in value]
    return _checked(name, type_, value)


_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "text": (str,),
    "jsonb": (str,),
    "bigint": (int,),
    "integer": (int,),
    "boolean": (bool,),
    "bytea": (bytes,),
    "interval": (timedelta,),
    "timestamptz": (datetime,),
    "numeric": (int, float, Decimal),
}


def _checked(name: str, type_: str, value: Any) -> Any:
    if value is None:
        return None
    wrong = not isinstance(value, _KINDS[type_]) or (isinstance(value, bool) and type_ != "boolean")
    limit = {"bigint": INT8, "integer": INT4}.get(type_)
    if wrong or (limit is not None and abs(value) > limit):
        raise refuse(name, value, f"a value of type {type_}")
    return optional_text(name, value) if type_ in ("text", "jsonb") else value
