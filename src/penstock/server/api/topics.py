"""Topics: their settings, their counts, and the actions of operators."""

from __future__ import annotations

from typing import Final

from penstock.commands import read, write
from penstock.server.api import topic_documents as t
from penstock.server.api.topic_creation import check_new_topic
from penstock.server.api.topic_documents import changes, stats_document, topic_document
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("topics")


@endpoint("GET", "/api/topic-configs", answers={200: t.Topics})
async def list_topic_configs(call: Call) -> t.Topics:
    """Every topic that the key may read, with its settings."""
    found = await call.run(read.queues())
    return t.Topics([topic_document(q) for q in found if call.principal.may("read", q.name)])


@endpoint(
    "POST",
    "/api/topic-configs",
    body=t.NewTopic,
    answers={201: t.Topic},
    problems=(409,),
)
async def create_topic(call: Call) -> t.Topic:
    """Create a topic. 409 if the name is taken."""
    body: t.NewTopic = call.body
    call.require("operate", body.topic)
    check_new_topic(body.topic)
    chosen = changes(body, whole=False)
    command = write.create_queue(body.topic, changes=chosen)
    await call.act(command, "create queue", body.topic, settings=chosen)
    return await _topic(call, body.topic)


@endpoint("GET", "/api/topic-configs/{topic}", answers={200: t.Topic}, problems=(404,))
async def show_topic_config(call: Call) -> t.Topic:
    """One topic with its settings."""
    return await _topic(call, call.path["topic"])


@endpoint("PUT", "/api/topic-configs/{topic}", body=t.Config, answers={200: t.Topic})
async def put_topic_config(call: Call) -> t.Topic:
    """Replace all settings. An omitted or null setting gets its default.

    A missing topic is created.
    """
    topic = call.path["topic"]
    check_new_topic(topic)
    chosen = changes(call.body, whole=True)
    await call.run(write.create_queue(topic, exist_ok=True))
    await call.act(write.set_queue(topic, changes=chosen), "set queue", topic, settings=chosen)
    return await _topic(call, topic)


@endpoint(
    "PATCH",
    "/api/topic-configs/{topic}",
    body=t.Config,
    answers={200: t.Topic},
    problems=(404,),
)
async def patch_topic_config(call: Call) -> t.Topic:
    """Change the given settings. Null means the default."""
    topic = call.path["topic"]
    chosen = changes(call.body, whole=False)
    await call.act(write.set_queue(topic, changes=chosen), "set queue", topic, settings=chosen)
    return await _topic(call, topic)


@endpoint("DELETE", "/api/topic-configs/{topic}", answers={200: t.Topic}, problems=(404,))
async def delete_topic_config(call: Call) -> t.Topic:
    """Reset all settings to their defaults. The topic and its messages stay."""
    topic = call.path["topic"]
    command = write.set_queue(topic, changes=changes(t.Config(), whole=True))
    await call.act(command, "reset queue", topic)
    return await _topic(call, topic)


@endpoint(
    "DELETE",
    "/api/topics/{topic}",
    query=t.Drop,
    answers={200: t.Counted},
    problems=(404, 409),
)
async def drop_topic(call: Call) -> t.Counted:
    """Drop a topic. If it has messages, `force` is needed. Returns their number."""
    topic = call.path["topic"]
    command = write.drop_queue(topic, force=call.query.force)
    return t.Counted(await call.act(command, "drop queue", topic, force=call.query.force))


@endpoint("POST", "/api/topics/{topic}/pause", answers={200: t.Topic}, problems=(404,))
async def pause_topic(call: Call) -> t.Topic:
    """Pause delivery. Enqueues are still accepted."""
    topic = call.path["topic"]
    await call.act(write.pause(topic), "pause", topic)
    return await _topic(call, topic)


@endpoint("POST", "/api/topics/{topic}/resume", answers={200: t.Topic}, problems=(404,))
async def resume_topic(call: Call) -> t.Topic:
    """Resume delivery."""
    topic = call.path["topic"]
    await call.act(write.resume(topic), "resume", topic)
    return await _topic(call, topic)


@endpoint(
    "POST",
    "/api/topics/{topic}/purge",
    query=t.Purge,
    answers={200: t.Counted},
    problems=(404,),
)
async def purge_topic(call: Call) -> t.Counted:
    """Cancel the waiting messages of a topic, or the dead letters in `<topic>.dlq`."""
    topic = call.path["topic"]
    command = write.purge(
        topic, include_leased=call.query.include_processing, max_count=call.query.max_count
    )
    return t.Counted(await call.act(command, "purge", topic))


@endpoint(
    "POST",
    "/api/topics/{topic}/undo-purge",
    answers={200: t.Counted},
    problems=(404, 409, 429),
)
async def undo_purge_topic(call: Call) -> t.Counted:
    """Enqueue copies of the messages that the latest purge of the topic removed, within an hour.
    Returns their number."""
    topic = call.path["topic"]
    return t.Counted(await call.act(write.undo_purge(topic), "undo purge", topic))


@endpoint(
    "POST",
    "/api/topics/{topic}/redrive",
    body=t.Redrive,
    answers={200: t.Counted},
    problems=(404, 429),
)
async def redrive_topic(call: Call) -> t.Counted:
    """Redrive dead letters of a topic by filter. Returns their number."""
    topic, body = call.path["topic"], call.body
    command = write.redrive(
        topic,
        ids=None if body.ids is None else [int(id) for id in body.ids],
        error_like=body.error_like,
        older_than=body.older_than_seconds,
        id_from=None if body.id_from is None else int(body.id_from),
        id_to=None if body.id_to is None else int(body.id_to),
        max_count=body.max_count,
        per_second=body.per_second,
        dry_run=body.dry_run,
    )
    if body.dry_run:
        return t.Counted(await call.run(command))
    return t.Counted(await call.act(command, "redrive", topic, error_like=body.error_like))


@endpoint("GET", "/api/stats", query=t.ForTopic, answers={200: t.AllStats}, problems=(404,))
async def show_stats(call: Call) -> t.AllStats:
    """The number of messages of each topic, or of one topic."""
    topic = call.query.topic
    if topic is not None:
        call.require("read", topic)
        return t.AllStats([stats_document(await call.run(read.stats(topic)))])
    found = await call.run(read.all_stats())
    return t.AllStats([stats_document(s) for s in found if call.principal.may("read", s.queue)])


async def _topic(call: Call, topic: str) -> t.Topic:
    return topic_document(await call.run(read.queue(topic)))
