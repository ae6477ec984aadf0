"""Putting in: enqueue, one or many, with keys, groups, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg.types.json import Jsonb

from .arena import Arena, RefusedError, Session, require
from .model import UNCOMMITTED, Layer, Message, finish

LATER = "1 hour"
ENQUEUE = (
    "select penstock.enqueue(%(queue)s, %(payload)s, %(payload_bytes)s, %(headers)s, %(key)s,"
    " %(priority)s, %(group)s, %(delay)s::interval, null, %(ttl)s::interval, null,"
    " %(on_conflict)s, %(unique_while)s) as id"
)
ENQUEUE_MANY = (
    "select penstock.enqueue_many(%(queue)s, %(payload)s::jsonb[], %(payload_bytes)s::bytea[],"
    " %(headers)s::jsonb[], %(key)s::text[], %(priority)s::integer[], %(group)s::text[],"
    " %(delay)s::interval[], null, %(ttl)s::interval[], null, %(on_conflict)s, %(unique_while)s"
    ") as id"
)


@dataclass(frozen=True)
class Draft:
    """What a caller enqueues."""

    kind: str = "small"  # small, large, bytes, large bytes, null
    headers: bool = False
    key: str | None = None
    priority: int = 0
    group: str | None = None
    later: bool = False
    ttl: bool = False

    def arguments(self, number: int) -> dict[str, Any]:
        payload: Any = {"n": number}
        data = None
        if self.kind == "large":
            payload["x"] = "large " * 300
        elif self.kind.endswith("bytes"):
            payload, data = None, b"%d\0" % number * (1000 if self.kind == "large bytes" else 1)
        elif self.kind == "null":
            payload = None
        return {
            "payload": None if data else Jsonb(payload),
            "payload_bytes": data,
            "headers": Jsonb({"n": str(number)}) if self.headers else None,
            "key": self.key,
            "priority": self.priority,
            "group": self.group,
            "delay": LATER if self.later else None,
            "ttl": LATER if self.ttl else None,
        }


class Putting(Arena):
    number = 0

    def enqueue(
        self,
        session: Session,
        queue: str,
        drafts: Sequence[Draft],
        many: bool,
        on_conflict: str,
        unique_while: str,
    ) -> None:
        rows = []
        for draft in drafts:
            self.number += 1
            rows.append(draft.arguments(self.number))
        arguments: dict[str, Any] = rows[0]
        if many:  # what no message has is left out, as a caller of the plain batch would
            arguments = {
                name: values if any(v is not None and v != 0 for v in values) else None
                for name in rows[0]
                if (values := [row[name] for row in rows])
            }
        fixed = {"queue": queue, "on_conflict": on_conflict, "unique_while": unique_while}
        may_wait = self.queues[queue].max_depth is not None or any(
            d.key or d.group or d.priority or d.ttl for d in drafts
        )
        messages = [self._drafted(session, queue, d, r) for d, r in zip(drafts, rows, strict=True)]
        scratch = Layer(self.committed, dict(session.layer.own))
        try:
            ids = [
                row["id"]
                for row in self.run(
                    session, queue, ENQUEUE_MANY if many else ENQUEUE, arguments | fixed, may_wait
                )
            ]
        except RefusedError as refused:
            if not refused.by_lock:
                elsewhere = self.admitted_elsewhere(session, queue)
                expected = {
                    self._refusal(Layer(self.committed, dict(scratch.own)), messages, fixed, count)
                    for count in (0, elsewhere)  # which may have been waited for
                }
                require(refused.sqlstate in expected, refused.sqlstate, expected)
            return
        assert len(ids) == len(messages)
        for message_id, message in zip(ids, messages, strict=True):
            refusal = self._admit(
                session.layer,
                replace(message, id=message_id, place=(UNCOMMITTED, message_id, 0)),
                on_conflict,
                unique_while,
            )
            assert refusal is None, f"enqueue should have said {refusal}"
        self.settle_layer(session)

    def _drafted(self, session: Session, queue: str, draft: Draft, row: dict[str, Any]) -> Message:
        return Message(
            id=0,
            queue=queue,
            payload=row["payload"] and row["payload"].obj,
            payload_bytes=row["payload_bytes"],
            headers=row["headers"] and row["headers"].obj,
            key=draft.key,
            priority=draft.priority,
            group=draft.group,
            due=not draft.later,
            has_ttl=draft.ttl,
            max_attempts=self.queues[queue].max_attempts,
            in_order=not session.open and not draft.later and not draft.group,
        )

    def _refusal(
        self, scratch: Layer, messages: list[Message], fixed: dict[str, Any], elsewhere: int
    ) -> str | None:
        """What the first message that cannot be enqueued is refused with."""
        for n, message in enumerate(messages):
            refusal = self._admit(
                scratch,
                replace(message, id=-1 - n),
                fixed["on_conflict"],
                fixed["unique_while"],
                elsewhere,
            )
            if refusal:
                return refusal
        return None

    def _admit(
        self,
        layer: Layer,
        message: Message,
        on_conflict: str,
        unique_while: str,
        elsewhere: int = 0,
    ) -> str | None:
        """Applies one enqueue to a layer, with the id it got, or returns the error.

        `elsewhere`: so many messages of open transactions of others count, too.
        """
        if message.key is not None:
            waiting = layer.with_key(message.queue, message.key, "waiting")
            for rival in [m for m in waiting if m.outlived]:
                finish(layer, rival, "expired")
                waiting.remove(rival)
            if unique_while == "unfinished" and not waiting:
                waiting = layer.with_key(message.queue, message.key, "leased")
            if waiting:  # several only if they are leased: then any may answer
                rival = next((m for m in waiting if m.id == message.id), waiting[0])
                return self._meet(layer, message, rival, on_conflict)
        depth = self.queues[message.queue].max_depth
        waiting_here = sum(m.unsettled for m in layer.of(message.queue))
        if depth is not None and waiting_here + elsewhere >= depth:
            return "PS008"
        known = [m.id for m in layer]
        assert message.id < 0 or message.id > max(known, default=0), f"id {message.id} is not new"
        layer.put(message)
        return None

    @staticmethod
    def _meet(layer: Layer, message: Message, rival: Message, on_conflict: str) -> str | None:
        if on_conflict == "error":
            return "PS009"
        if message.id > 0:
            assert message.id == rival.id, f"{message.id} is not {rival.id}, which has the key"
        if on_conflict == "replace" and rival.state == "waiting":
            layer.change(
                rival,
                payload=message.payload,
                payload_bytes=message.payload_bytes,
                headers=message.headers,
            )
        return None
