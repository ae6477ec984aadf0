"""Decodes the server's responses into rows for a command, or into an error. No I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
from penstock.model.message import Lease

T = TypeVar("T")
HEADERS: Final = {"Content-Type": "application/json", "Penstock-Protocol": PROTOCOL}
_BY_NAME: Final = {row.error.__name__: row.error for row in ERRORS}
_BY_STATUS: Final[dict[int, type[PenstockError]]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    503: DatabaseUnavailableError,
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
    """The error that a problem document stands for."""
    if not isinstance(document, dict) or "code" not in document:
        return ServerUnavailableError(
            f"a response with status {status} did not come from a Penstock server",
            hint="Check the address, and the proxies between the client and the server.",
        )
    code = str(document["code"])
    kind = _BY_NAME.get(code) or _BY_STATUS.get(status, ServerRefusedError)
    fields = dict(document.get("fields") or {})
    for name in ("field", "allowed"):
        if name in document:
            fields[name] = document[name]
    if kind is ServerRefusedError:
        fields |= {"status": status, "code": code}
    return kind(str(document.get("detail", code)), hint=document.get("hint"), **fields)


def lease_of(message: dict[str, Any]) -> Lease:
    """A message of the data plane's dequeue, as a lease."""
    raw = message.get("payload")
    expires_at = message["expires_at"]
    return Lease(
        id=int(message["id"]),
        token=int(message["lease_token"]),
        queue=message["topic"],
        payload=message.get("json") if raw is None else unpack({"bytes": raw}),
        headers=message["metadata"],
        key=message["key"],
        priority=message["priority"],
        group=message["group"],
        attempt=message["attempt"],
        max_attempts=message["max_attempts"],
        enqueued_at=datetime.fromisoformat(message["created_at"]),
        lease_until=datetime.fromisoformat(message["visibility_timeout"]),
        expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
        last_error=message["last_error"],
        original_queue=message["original_topic"],
    )
