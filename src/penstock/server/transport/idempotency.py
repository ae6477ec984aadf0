"""`Idempotency-Key`: a repeated POST gets the first response again, and its work is done once.

Every POST supports it. The response is stored for a day, in the transaction of the work. A second
call with the same key waits for the first. Errors are not stored, so such a call may be repeated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from penstock.commands.write.idempotency import keep_answer, recall_answer
from penstock.db.async_connections import AnyConnection
from penstock.server.transport.call import Call, Reply
from penstock.server.transport.problems import HttpError

HEADER: Final = "idempotency-key"
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
Work = Callable[[AnyConnection | None], Awaitable[Any]]


async def once(call: Call, status: int, work: Work) -> Any:
    """The response of `work`, now or from the first call. It runs on the given connection."""
    key = call.header(HEADER)
    if key is None:
        return await work(None)
    if not _KEY.fullmatch(key):
        raise HttpError(
            400,
            "MalformedHeader",
            "the Idempotency-Key is not 1 to 255 visible ASCII characters",
            field="Idempotency-Key",
        )
    actor, print_ = call.principal.name, _fingerprint(call)
    database = call.context.database
    async with database.transaction() as connection:
        known = await database.run(recall_answer(actor, key, print_), connection)
        if known is not None:
            return _again(*known, print_)
        answer = await work(connection)
        if isinstance(answer, Reply):
            answer, status = answer.body, answer.status
        body = msgspec.json.encode(answer)
        await database.run(keep_answer(actor, key, status, body), connection)
    return Reply(body, status)


def _again(fingerprint: bytes, status: int, body: bytes, asked: bytes) -> Reply:
    if fingerprint != asked:
        raise HttpError(
            422,
            "IdempotencyKeyReused",
            "this Idempotency-Key was used for another call",
            hint="Use a separate key for each call.",
            field="Idempotency-Key",
        )
    return Reply(body, status, {"Idempotency-Replayed": "true"})


def _fingerprint(call: Call) -> bytes:
    path, query = call.scope["path"].encode(), call.scope["query_string"]
    parts = (call.scope["method"].encode(), path, *([query] if query else []), call.raw)
    return hashlib.sha256(b"\0".join(parts)).digest()
