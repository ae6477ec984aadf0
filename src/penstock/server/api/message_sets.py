"""Actions on messages by a list of ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from penstock.commands import read, write
from penstock.commands.write.messages import cancel_many
from penstock.db.async_connections import AnyConnection
from penstock.server import fields as f
from penstock.server.api.topic_creation import check_new_topic
from penstock.server.api.topic_documents import Counted
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("messages")


class SomeMessages(Struct, forbid_unknown_fields=True):
    """Up to 10,000 messages. Ids of messages that do not exist are skipped."""

    ids: f.ManyIds


class Move(Struct, forbid_unknown_fields=True):
    """The messages, and the topic to put them into."""

    ids: f.ManyIds
    topic: f.NewName


class SetPriority(Struct, forbid_unknown_fields=True):
    """The messages and their new priority."""

    ids: f.ManyIds
    priority: f.Priority


@endpoint("POST", "/api/messages/cancel", body=SomeMessages, answers={200: Counted})
async def cancel_messages(call: Call) -> Counted:
    """Cancel messages that are waiting, leased or dead. Returns their number."""
    ids = _ids(call)
    queue = await operated_queue(call, ids)
    return Counted(await call.act(cancel_many(ids), "cancel", queue, count=len(ids), queue=queue))


@endpoint("POST", "/api/messages/move", body=Move, answers={200: Counted}, problems=(404, 409, 429))
async def move_messages(call: Call) -> Counted:
    """Put waiting messages and dead letters into another topic. Returns their number."""
    ids, topic = _ids(call), call.body.topic
    queue = await operated_queue(call, ids)
    call.require("operate", topic)
    check_new_topic(topic)
    return Counted(await call.act(write.move(ids, topic), "move", queue, to=topic, queue=queue))


@endpoint("POST", "/api/messages/set-priority", body=SetPriority, answers={200: Counted})
async def prioritize_messages(call: Call) -> Counted:
    """Change the priority of waiting messages. Returns their number."""
    ids, priority = _ids(call), call.body.priority
    queue = await operated_queue(call, ids)
    command = write.set_priority(ids, priority)
    return Counted(await call.act(command, "set priority", queue, priority=priority, queue=queue))


def _ids(call: Call) -> list[int]:
    return [int(id) for id in call.body.ids]


async def operated_queue(
    call: Call, ids: Iterable[int], connection: AnyConnection | None = None
) -> str | None:
    """Check that the key may operate the queues of messages. Returns the queue if there is one."""
    found = await call.context.database.run(
        read.whereabouts(list(ids)), connection or call.connection
    )
    for id, (queue, _) in found.items():
        call.require_of(f"message {id}", "operate", queue)
    queues = {queue for queue, _ in found.values()}
    return queues.pop() if len(queues) == 1 else None
