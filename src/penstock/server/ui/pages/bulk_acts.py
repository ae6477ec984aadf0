"""Acts on all messages that match a filter: the form, the progress, and the stop."""

from __future__ import annotations

from typing import Any, Final

from penstock.commands import read
from penstock.commands.read.bulk_queries import bulk_acts
from penstock.commands.write.bulk_acts import request_bulk_act, stop_bulk_act
from penstock.model.bulk_act import STATES_OF, BulkAct
from penstock.server.auth.bulk_access import may_act, operated_act, require_queues
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.formats import count
from penstock.server.ui.forms import decimal_of, whole_of
from penstock.server.ui.pages.messages import STATES, message_filter
from penstock.server.ui.visits import Pages, View, Visit, refused

pages: Final = Pages()
COUNTED: Final = 5_000
FILTERS: Final = ("queue", "key", "error", "worker", "older", "younger")
NAMES: Final = {
    "cancel": "Cancel",
    "redrive": "Redrive",
    "replay": "Replay",
    "move": "Move",
    "set_priority": "Change the priority of",
}
EFFECTS: Final = {
    "cancel": "They end as cancelled, and are no longer delivered.",
    "redrive": "They are put back into their queue, and start again at their first attempt.",
    "replay": "A copy of each is enqueued.",
    "move": "They are put into another queue, and keep their ids.",
    "set_priority": "They come last among the messages of their new priority.",
}


@pages("/bulk-acts")
async def list_acts(visit: Visit) -> View:
    found = [act for act in await visit.run(bulk_acts()) if may_act(visit.principal, act)]
    return View("bulk_acts.html", "Bulk acts", {"acts": found, "names": NAMES}, live=True)


class Bulk(Act):
    """An action on all messages of a list. A server carries it out."""

    path = "/messages/bulk"

    async def ask(self, visit: Visit) -> Question:
        verb, state = self._verb(visit), visit.asked_one("state", STATES)
        queues = await self._queues(visit)
        found = await visit.run(
            read.browse(state, queues, message_filter(visit), page=COUNTED, look=COUNTED)  # type: ignore[arg-type]
        )
        facts = {name.capitalize(): visit.asked(name) or "" for name in FILTERS}
        return Question(
            title=f"{NAMES[verb]} all messages that match",
            button=NAMES[verb].split()[0],
            back="/messages",
            text=[
                EFFECTS[verb],
                "A server does this in steps. The page Bulk acts shows the progress.",
            ],
            count=len(found.rows),
            unit=f"messages in state {state} match" + (", or more" if found.next else ""),
            facts={"State": state, **{name: value for name, value in facts.items() if value}},
            fields=[*self._hidden(visit, verb, state), *self._fields(visit, verb)],
            danger=verb == "cancel",
        )

    def _hidden(self, visit: Visit, verb: str, state: str) -> list[Field]:
        given = {"act": verb, "state": state, **{name: visit.asked(name) for name in FILTERS}}
        return [Field(name=n, kind="hidden", value=v) for n, v in given.items() if v is not None]

    def _fields(self, visit: Visit, verb: str) -> list[Field]:
        fields = []
        if verb in ("move", "replay"):
            hint = "" if verb == "move" else "Empty: the queue of each message."
            fields.append(
                Field(
                    name="to_queue",
                    label="Into queue",
                    value=visit.asked("to_queue") or "",
                    required=verb == "move",
                    hint=hint,
                )
            )
        if verb == "set_priority":
            priority = visit.asked("priority") or ""
            fields.append(
                Field(
                    name="priority", label="Priority", value=priority, required=True, hint="-9 to 9"
                )
            )
        limits = (
            ("per_second", "Messages per second", "Empty: as fast as the database can."),
            ("max_count", "At most", "Empty: all of them."),
        )
        for name, label, hint in limits:
            value = visit.asked(name) or ""
            fields.append(Field(name=name, label=label, kind="number", value=value, hint=hint))
        dry = visit.asked("dry_run") or ""
        label = "Dry run: only count them"
        return [*fields, Field(name="dry_run", label=label, kind="checkbox", value=dry)]

    async def do(self, visit: Visit) -> Deed:
        verb, state = self._verb(visit), visit.asked_one("state", STATES)
        queues, to_queue = await self._queues(visit), visit.asked("to_queue")
        require_queues(visit.principal, queues, to_queue)
        options: dict[str, Any] = {
            "to_queue": to_queue,
            "priority": _priority(visit),
            "per_second": decimal_of(visit, "per_second", None),
            "max_count": whole_of("max_count", visit.asked("max_count"), "a whole number"),
            "dry_run": visit.asked("dry_run") is not None,
        }
        command = request_bulk_act(
            verb,  # type: ignore[arg-type]  # one of NAMES, as checked
            state,
            queues,
            message_filter(visit),
            created_by=visit.principal.name,
            **options,
        )
        queue = visit.asked("queue")
        filter = {name: visit.asked(name) for name in FILTERS}
        details = {"verb": verb, "state": state, **filter, **options}
        return Deed(
            command=command,
            act="bulk act",
            target=queue,
            to="/bulk-acts",
            details={name: value for name, value in details.items() if value},
            answer_is="id",
        )

    def _verb(self, visit: Visit) -> str:
        verb = visit.asked_one("act", tuple(NAMES))
        state = visit.asked_one("state", STATES)
        if state not in STATES_OF[verb]:
            raise refused("state", state, ", ".join(STATES_OF[verb]))
        return verb

    async def _queues(self, visit: Visit) -> list[str] | None:
        """The queues of the filter, or all that the visitor may operate."""
        queue = visit.asked("queue")
        if queue is not None:
            name = queue.removesuffix(".dlq")
            visit.principal.require("operate", name)
            await visit.run(read.queue(name))
            return [name]
        if visit.principal.unlimited("operate"):
            return None
        names = [each.name for each in (await visit.look("queues")).queues]
        return visit.principal.only("operate", names)


class StopBulk(Act):
    path = "/bulk-acts/{id}/stop"

    async def ask(self, visit: Visit) -> Question:
        act = await self._act(visit)
        return Question(
            title=f"Stop: {NAMES[act.act].lower()} messages",
            button="Stop",
            back="/bulk-acts",
            text=["It stops before its next step. Messages that it has changed stay changed."],
            count=act.changed,
            unit="messages are changed so far",
            facts={"Examined": count(act.looked), "Matched": count(act.matched)},
        )

    async def do(self, visit: Visit) -> Deed:
        act = await self._act(visit)
        return Deed(
            command=stop_bulk_act(act.id),
            act="stop bulk act",
            target=act.id,
            to="/bulk-acts",
            details={"queue": act.queues[0] if act.queues and len(act.queues) == 1 else None},
        )

    async def _act(self, visit: Visit) -> BulkAct:
        return await operated_act(visit.principal, visit.run, visit.path["id"])


def _priority(visit: Visit) -> int | None:
    text = visit.asked("priority")
    if text is None:
        return None
    if text.lstrip("-").isdigit() and text.isascii() and -9 <= int(text[:4]) <= 9:
        return int(text)
    raise refused("priority", text, "-9 to 9")


ACTS: Final = (Bulk(), StopBulk())
