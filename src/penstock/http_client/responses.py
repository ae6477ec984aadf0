"""Decodes the server's responses into rows for a command, or into an error. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from penstock.commands.command import Command
from penstock.commands.http_verbs import PROTOCOL, by_statement, pack, unpack
from penstock.commands.payload import decode_json
from penstock.errors import (
    ERRORS,
    AuthenticationError,
    DatabaseUnavailableError,
    PenstockError,
    PermissionDeniedError,
    ServerRefusedError,
    ServerUnavailableError,
)
from penstock.model.lease_columns import LEASE_COLUMNS, LEASE_FIELDS
from penstock.model.message import Lease

T = TypeVar("T")
HEADERS: Final = {"Content-Type": "application/json", "Penstock-Protocol": PROTOCOL}
_BY_NAME: Final = {row.error.__name__: row.error for row in ERRORS}
_BY_STATUS: Final[dict[int, type[PenstockError]]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    503: DatabaseUnavailableError,
}

# The name of payloads of bytes in a document.
(_BYTES,) = (column.http for column in LEASE_COLUMNS if column.sql_type == "bytea")
_DECODE: Final[dict[str, Callable[[str], Any]]] = {
    "bigint": int,
    "timestamptz": datetime.fromisoformat,
}


def body_of(commands: Sequence[Command[Any]]) -> bytes:
    """The body of a request that runs commands in one transaction."""
    calls = []
    for command in commands:
        verb = by_statement().get(command.sql)
        if verb is None:
            raise PenstockError(
                "this command is not available over HTTP", hint="Use the client over SQL."
            )
        arguments = {name: pack(value) for name, value in command.params.items()}
        calls.append({"verb": verb.name, "arguments": arguments})
    return json.dumps({"calls": calls}, separators=(",", ":")).encode()


def answers_of(status: int, text: str, commands: Sequence[Command[Any]]) -> list[Any]:
    """The result of each command. Raises the error of the command that was refused."""
    document = checked(status, text)
    return [
        command.decode([[unpack(value) for value in row] for row in answer["rows"]])
        for command, answer in zip(commands, document["answers"], strict=True)
    ]


def checked(status: int, text: str) -> Any:
    """The document of a response. A problem document is raised as its error."""
    try:
        document = decode_json(text)
    except ValueError:
        document = None
    if status < 400 and isinstance(document, dict):
        return document
    raise problem(status, document)


def problem(status: int, document: Any) -> PenstockError:
    """The error of a problem document."""
    if not isinstance(document, dict) or "code" not in document:
        return ServerUnavailableError(
            f"a response with status {status} did not come from a Penstock server",
            hint="Check the address, and the proxies between the client and the server.",
        )
    code = str(document["code"])
    kind = _BY_NAME.get(code) or _BY_STATUS.get(status, ServerRefusedError)
    fields = {_FIELDS.get(k, k): _id(k, v) for k, v in (document.get("fields") or {}).items()}
    for name in ("field", "allowed"):
        if name in document:
            fields[name] = document[name]
    if kind is ServerRefusedError:
        fields |= {"status": status, "code": code}
    return kind(str(document.get("detail", code)), hint=document.get("hint"), **fields)


# A long poll has topics.
_FIELDS: Final = {"topic": "queue"}


def _id(name: str, value: Any) -> Any:
    """Ids are strings over HTTP."""
    is_id = name in ("id", "batch") and isinstance(value, str) and value.isdigit()
    return int(value) if is_id else value


def lease_of(message: dict[str, Any]) -> Lease:
    """A message of the data plane's dequeue, as a lease."""
    fields = {field: _value_of(message, place) for field, place in LEASE_FIELDS.items()}
    if _BYTES in message:
        fields["payload"] = unpack({"bytes": message[_BYTES]})
    return Lease(**fields)


def _value_of(message: dict[str, Any], place: int) -> Any:
    """The value of a column. The JSON value is missing if the payload is bytes."""
    column = LEASE_COLUMNS[place]
    value = message.get(column.http)
    decode = _DECODE.get(column.sql_type)
    return value if decode is None or value is None else decode(value)
