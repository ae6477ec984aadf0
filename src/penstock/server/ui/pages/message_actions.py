"""Actions on one message, or on messages chosen in a list."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from penstock.commands import read, write
from penstock.commands.command import Command
from penstock.commands.write.messages import cancel_many
from penstock.model.message import Message
from penstock.server.transport.problems import HttpError
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.formats import pretty
from penstock.server.ui.forms import json_of, typed
from penstock.server.ui.pages.messages import can_copy, find, possible
from penstock.server.ui.pages.queue_actions import check_there
from penstock.server.ui.visits import Visit, refused

MOST: Final = 500
PARTICIPLES: Final = {
    "cancel": "cancelled",
    "copy": "copied",
    "replay": "replayed",
    "requeue": "requeued",
}


class MessageAct(Act):
    """An action on one message, in a state that allows it."""

    verb: str

    async def message(self, visit: Visit) -> Message:
        found = await find(visit)
        queue = found.original_queue or found.queue
        visit.principal.require_of(f"message {found.id}", "operate", queue)
        if self.verb not in possible(found):
            raise HttpError(
                409,
                "WrongState",
                f"message {found.id} is {found.state}",
                hint=f"A message in this state cannot be {PARTICIPLES[self.verb]}.",
            )
        return found

    def question(
        self, message: Message, text: list[str], unit: str, button: str = "", **more: Any
    ) -> Question:
        name = self.verb.capitalize()
        return Question(
            title=f"{name} message {message.id}",
            button=button or name,
            back=f"/messages/{message.id}",
            text=text,
            count=1,
            unit=unit,
            facts=_facts(message),
            **more,
        )

    def deed(self, message: Message, command: Command[Any], queue: str, **more: Any) -> Deed:
        details = {"id": str(message.id)}
        to = f"/messages/{message.id}"
        return Deed(command=command, act=self.verb, target=queue, to=to, details=details, **more)


def _facts(message: Message) -> dict[str, str]:
    facts = {"Queue": message.queue, "State": message.state, "Attempt": str(message.attempt)}
    return facts | ({"Key": message.key} if message.key else {})


class Cancel(MessageAct):
    path = "/messages/{id}/cancel"
    verb = "cancel"

    async def ask(self, visit: Visit) -> Question:
        found = await self.message(visit)
        text = ["It ends as cancelled and is not delivered again."]
        if found.state == "leased":
            text.append(f"Worker {found.worker or '-'} holds its lease and will lose it.")
        return self.question(found, text, "message", "Cancel the message", danger=True)

    async def do(self, visit: Visit) -> Deed:
        found = await self.message(visit)
        return self.deed(found, write.cancel(found.id), found.original_queue or found.queue)


class Requeue(MessageAct):
    path = "/messages/{id}/requeue"
    verb = "requeue"

    async def ask(self, visit: Visit) -> Question:
        found = await self.message(visit)
        text = "It goes back into its queue and starts again at its first attempt."
        return self.question(found, [text], "dead letter")

    async def do(self, visit: Visit) -> Deed:
        found = await self.message(visit)
        queue = found.original_queue or found.queue
        return self.deed(found, write.redrive(queue, ids=[found.id]), queue, answer_is="count")


class Replay(MessageAct):
    path = "/messages/{id}/replay"
    verb = "replay"

    async def ask(self, visit: Visit) -> Question:
        found = await self.message(visit)
        value = visit.asked("queue") or found.queue
        field = Field(name="queue", label="Into queue", value=value, required=True)
        text = "A copy of it is enqueued, with the same payload, headers and key."
        return self.question(found, [text], "message", fields=[field])

    async def do(self, visit: Visit) -> Deed:
        found = await self.message(visit)
        queue = visit.asked("queue") or found.queue
        visit.principal.require("operate", queue)
        await check_there(visit, queue)
        return self.deed(found, write.replay(found.id, queue), queue, answer_is="copy")


class Copy(MessageAct):
    path = "/messages/{id}/copy"
    verb = "copy"

    async def ask(self, visit: Visit) -> Question:
        found = await self._copied(visit)
        text = "A new message is enqueued. This one stays as it is."
        fields = [
            Field(
                name="queue",
                label="Into queue",
                value=typed(visit, "queue", found.original_queue or found.queue),
                required=True,
            ),
            Field(
                name="payload",
                label="Payload",
                kind="textarea",
                value=typed(visit, "payload", pretty(found.payload)),
                hint="JSON",
            ),
            Field(
                name="headers",
                label="Headers",
                kind="textarea",
                value=typed(visit, "headers", pretty(found.headers or {})),
                hint="a JSON object",
            ),
            Field(name="key", label="Key", value=typed(visit, "key", found.key)),
            Field(name="group", label="Group", value=typed(visit, "group", found.group)),
            Field(
                name="priority",
                label="Priority",
                value=typed(visit, "priority", found.priority),
                hint="-9 to 9",
            ),
        ]
        title = f"Enqueue a copy of message {found.id}"
        back = f"/messages/{found.id}"
        return Question(title=title, button="Enqueue", back=back, text=[text], fields=fields)

    async def do(self, visit: Visit) -> Deed:
        found = await self._copied(visit)
        queue = visit.asked("queue") or ""
        visit.principal.require("enqueue", queue)
        await check_there(visit, queue)
        headers = json_of(visit, "headers")
        if not isinstance(headers, dict):
            raise refused("headers", str(headers), "a JSON object")
        command = write.enqueue(
            queue,
            json_of(visit, "payload"),
            key=visit.asked("key"),
            group=visit.asked("group"),
            priority=_priority(visit),
            headers=headers,
            # A copy must not replace a waiting message with the same key.
            on_conflict="error",
        )
        return self.deed(found, command, queue, answer_is="copy")

    async def _copied(self, visit: Visit) -> Message:
        found = await find(visit)
        queue = found.original_queue or found.queue
        visit.principal.require_of(f"message {found.id}", "operate", queue)
        visit.principal.require_of(f"message {found.id}", "enqueue", queue)
        if not can_copy(visit, found):
            raise HttpError(
                409,
                "NotEditable",
                f"message {found.id} cannot be edited",
                hint="Its payload is not JSON, or payloads are redacted on this server.",
            )
        return found


def _priority(visit: Visit) -> int:
    text = visit.asked("priority") or "0"
    if text.removeprefix("-") not in set("0123456789"):
        raise refused("priority", text, "a whole number from -9 to 9")
    return int(text)


class CancelChosen(Act):
    path = "/messages/cancel"

    async def ask(self, visit: Visit) -> Question:
        found = await self._chosen(visit)
        queues = sorted({queue for queue, _ in found.values()})
        return Question(
            title="Cancel the chosen messages",
            button="Cancel them",
            back="/messages",
            text=["They end as cancelled and are not delivered again."],
            count=len(found),
            facts={"Queues": ", ".join(queues[:10]), "Ids": _some(list(found))},
            fields=[Field(name="id", kind="hidden", value=str(id)) for id in found],
            danger=True,
        )

    async def do(self, visit: Visit) -> Deed:
        found = await self._chosen(visit)
        queues = sorted({queue for queue, _ in found.values()})
        return Deed(
            command=cancel_many(list(found)),
            act="cancel",
            target=queues[0] if len(queues) == 1 else None,
            to=f"/messages?{urlencode({'queue': queues[0]} if len(queues) == 1 else {})}",
            details={"ids": _some(list(found))},
            answer_is="count",
        )

    async def _chosen(self, visit: Visit) -> dict[int, tuple[str, str]]:
        texts = visit.asked_all("id")
        if not 1 <= len(texts) <= MOST or not all(t.isascii() and t.isdigit() for t in texts):
            raise refused("id", ", ".join(texts[:5]), f"1 to {MOST} ids of messages")
        found = await visit.run(read.whereabouts([int(text[:18]) for text in texts]))
        if not found:
            raise HttpError(409, "NoneWaiting", "none of these messages is waiting")
        for id, (queue, _) in found.items():
            visit.principal.require_of(f"message {id}", "operate", queue)
        return found


def _some(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:20])) + (f" and {len(ids) - 20} more" if len(ids) > 20 else "")


ACTS: Final = (CancelChosen(), Cancel(), Requeue(), Replay(), Copy())
