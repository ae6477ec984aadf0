"""`Idempotency-Key`: a repeated POST gets the first response again, and its work is done once.

Every POST supports it. The response is stored for a day, in the transaction of the work. A second
call with the same key waits for the first. Errors are not stored, so such a call may be repeated.

Neither a password in a request nor a secret in a response can be read in the database: the stored
fingerprint of the request and the stored secret need the caller's API key, which is not there.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from cryptography.fernet import Fernet

from penstock.commands.write.idempotency import keep_answer, recall_answer
from penstock.db.async_connections import AnyConnection
from penstock.server.auth.authentication import credentials
from penstock.server.transport.call import Call, Reply
from penstock.server.transport.problems import HttpError

HEADER: Final = "idempotency-key"
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
Work = Callable[[AnyConnection | None], Awaitable[Any]]


async def once(call: Call, status: int, work: Work, *, is_secret: bool = False) -> Any:
    """The response of `work`, now or from the first call. It runs on the given connection.

    `is_secret`: the response is stored encrypted.
    """
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
            found, status, body = known
            if found != print_:
                raise _used_before()
            body = _box(call, key).decrypt(body) if is_secret else body
            return Reply(body, status, {"Idempotency-Replayed": "true"})
        answer = await work(connection)
        if isinstance(answer, Reply):
            answer, status = answer.body, answer.status
        body = msgspec.json.encode(answer)
        kept = _box(call, key).encrypt(body) if is_secret else body
        await database.run(keep_answer(actor, key, status, kept), connection)
    return Reply(body, status)


def _used_before() -> HttpError:
    return HttpError(
        422,
        "IdempotencyKeyReused",
        "this Idempotency-Key was used for another call",
        hint="Use a separate key for each call.",
        field="Idempotency-Key",
    )


def _fingerprint(call: Call) -> bytes:
    path, query = call.scope["path"].encode(), call.scope["query_string"]
    parts = (call.scope["method"].encode(), path, *([query] if query else []), call.raw)
    return hmac.digest(_api_key(call), b"\0".join(parts), hashlib.sha256)


def _box(call: Call, key: str) -> Fernet:
    secret = hmac.digest(_api_key(call), b"response to " + key.encode(), hashlib.sha256)
    return Fernet(urlsafe_b64encode(secret))


def _api_key(call: Call) -> bytes:
    _, secret = credentials(call.header("authorization") or "")
    return secret.encode()
