"""Batches: create one, add members, seal it, cancel it, and finish those whose members ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, nothing, scalar, utc_row
from penstock.commands.payload import encode_json
from penstock.commands.write.enqueueing import columns, encode
from penstock.model.batch import BatchProgress

MEMBERS_IN_CALL: Final = 1000
# Workers cancel members on the connections of their claims, which wait meanwhile.
_CANCELS_IN_CALL: Final = 500

_CREATE: Final = call(
    "create_batch", name="text", on_success="jsonb", on_failure="jsonb", on_finish="jsonb"
)
_ADD: Final = call(
    "add_to_batch",
    batch_id="bigint",
    queue="text",
    payloads="jsonb[]",
    payloads_bytes="bytea[]",
    headers="jsonb[]",
    priorities="integer[]",
    group_keys="text[]",
    delays="interval[]",
    visible_ats="timestamptz[]",
    ttls="interval[]",
    max_attempts="integer[]",
)
_SEAL: Final = call("seal_batch", batch_id="bigint")
_CANCEL: Final = call("cancel_batch", "cancelled, more", batch_id="bigint", max_count="integer")
_GET: Final = call(
    "get_batch",
    "id, name, state, total, pending, done, dead, expired, cancelled, created_at, sealed_at, "
    "finished_at, last_error",
    batch_id="bigint",
)
_FINISH: Final = call("finish_batches")
_CONTINUE_CANCELS: Final = call("continue_cancels", max_count="integer")
_ENQUEUE_ALL: Final = call("enqueue_all", messages="jsonb")

# The parameters of `penstock.enqueue`, as JSON has them.
JsonMessage = Mapping[str, Any]


class Cancelled(NamedTuple):
    """How many members were cancelled, and whether there are more."""

    members: int
    more: bool


def create_batch(
    name: str | None,
    on_success: Sequence[JsonMessage],
    on_failure: Sequence[JsonMessage],
    on_finish: Sequence[JsonMessage],
) -> Command[int]:
    """Create an open batch. The result is its id."""
    params = {
        "name": check.optional_text("name", name),
        "on_success": encode_json(list(on_success), "on_success"),
        "on_failure": encode_json(list(on_failure), "on_failure"),
        "on_finish": encode_json(list(on_finish), "on_finish"),
    }
    return Command(_CREATE, params, scalar)


def add_to_batch(batch_id: int, queue: str, messages: Sequence[Any]) -> Command[list[int]]:
    """Enqueue up to 10,000 messages without keys as members. The result has their ids, in order."""
    encoded = [encode(message) for message in messages]
    for each in encoded:
        if each.key is not None:
            raise check.refuse("key", each.key, "no key for a member of a batch")
    arrays = columns(encoded)
    del arrays["keys"]
    params = {"batch_id": batch_id, "queue": check.text("queue", queue), **arrays}
    return Command(_ADD, params, lambda rows: [row[0] for row in rows])


def seal_batch(batch_id: int) -> Command[None]:
    """Seal a batch: it finishes when all its members have ended."""
    return Command(_SEAL, {"batch_id": batch_id}, nothing)


def cancel_batch(batch_id: int, max_count: int = MEMBERS_IN_CALL) -> Command[Cancelled]:
    """Cancel some of the members that have not ended.

    If there are more, workers and servers continue. Repeat it to be done sooner.
    """

    def decode(rows: Rows) -> Cancelled:
        return Cancelled(*rows[0])

    params = {"batch_id": check.whole("batch_id", batch_id, check.INT8), "max_count": max_count}
    return Command(_CANCEL, params, decode)


def get_batch(batch_id: int) -> Command[BatchProgress]:
    """A batch as it is now."""
    params = {"batch_id": check.whole("batch_id", batch_id, check.INT8)}
    return Command(_GET, params, lambda rows: BatchProgress(*utc_row(rows[0])))


def finish_batches() -> Command[int]:
    """Finish the batches whose members have all ended. The result is their number. For workers."""
    return Command(_FINISH, {}, scalar)


def continue_cancels() -> Command[int]:
    """Cancel up to 500 of the members that `cancel_batch` has left. The result is their number.

    For workers and servers. It is 0 if none are left, or other transactions have locked them.
    """
    return Command(_CONTINUE_CANCELS, {"max_count": _CANCELS_IN_CALL}, scalar)


def enqueue_all(messages: Sequence[JsonMessage]) -> Command[list[int]]:
    """Enqueue up to 10,000 messages for any queues, all or none. Returns their ids, in order."""
    params = {"messages": encode_json(list(messages), "messages")}
    return Command(_ENQUEUE_ALL, params, lambda rows: [row[0] for row in rows])
