"""Actions on queues."""

from __future__ import annotations

from typing import Any, Final

from penstock.commands import read, write
from penstock.commands.read.bulk_queries import last_purge
from penstock.errors import QueueNotFoundError
from penstock.model.queue import QueueStats
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.formats import count, duration, moment
from penstock.server.ui.forms import decimal_of, limit_field, limit_of, whole_of
from penstock.server.ui.paths import queue_path
from penstock.server.ui.visits import Visit, refused

COUNTED: Final = 10_000


class QueueAct(Act):
    """An action on an existing queue."""

    def name(self, visit: Visit) -> str:
        return visit.path["name"]


class Pause(QueueAct):
    path = "/queues/{name}/pause"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        stats = await visit.run(read.stats(name))
        return Question(
            title=f"Pause {name}",
            button="Pause",
            back=queue_path(name),
            text=[
                "Its messages are not delivered until it is resumed. Enqueues are still accepted."
            ],
            count=stats.ready,
            unit="messages are ready and would wait",
            estimated=stats.estimated,
            facts={"Leased, not affected": _about(stats, stats.leased)},
        )

    async def do(self, visit: Visit) -> Deed:
        name = self.name(visit)
        return Deed(command=write.pause(name), act="pause", target=name, to=queue_path(name))


class Resume(QueueAct):
    path = "/queues/{name}/resume"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        stats = await visit.run(read.stats(name))
        oldest = stats.oldest_ready_seconds
        return Question(
            title=f"Resume {name}",
            button="Resume",
            back=queue_path(name),
            text=["Its messages are delivered again at once."],
            count=stats.ready,
            unit="messages are ready",
            estimated=stats.estimated,
            facts={} if oldest is None else {"The oldest waits for": duration(oldest)},
        )

    async def do(self, visit: Visit) -> Deed:
        name = self.name(visit)
        return Deed(command=write.resume(name), act="resume", target=name, to=queue_path(name))


class Purge(QueueAct):
    path = "/queues/{name}/purge"
    suffix = ""

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        settings = (await visit.run(read.queue(name))).settings
        after = _after_purge(settings.keep_history)
        return self.question(visit, name, await visit.run(read.stats(name)), after)

    def question(self, visit: Visit, name: str, stats: QueueStats, after: str) -> Question:
        return Question(
            title=f"Purge {name}",
            button="Purge",
            back=queue_path(name),
            text=["Waiting messages are cancelled and not delivered.", after],
            count=stats.ready + stats.scheduled,
            unit="messages wait",
            estimated=stats.estimated,
            facts={
                "Ready": _about(stats, stats.ready),
                "Scheduled": _about(stats, stats.scheduled),
                "Leased, not affected": _about(stats, stats.leased),
            },
            fields=[limit_field(visit), confirm_field(visit, name)],
            danger=True,
        )

    async def do(self, visit: Visit) -> Deed:
        name, limit = self.name(visit), limit_of(visit)
        check_confirmed(visit, name)
        return Deed(
            command=write.purge(name + self.suffix, max_count=limit),
            act="purge",
            target=name + self.suffix,
            to=queue_path(name),
            details={"limit": limit},
            answer_is="count",
        )


class PurgeDead(Purge):
    path = "/queues/{name}/purge-dead"
    suffix = ".dlq"

    def question(self, visit: Visit, name: str, stats: QueueStats, after: str) -> Question:
        return Question(
            title=f"Purge the dead letters of {name}",
            button="Purge dead letters",
            back=queue_path(name),
            text=["They are cancelled.", after],
            count=stats.dead,
            unit="dead letters",
            estimated=stats.estimated,
            fields=[limit_field(visit), confirm_field(visit, name)],
            danger=True,
        )


def _about(stats: QueueStats, number: int) -> str:
    return ("about " if stats.estimated else "") + count(number)


def _after_purge(keep_history: int) -> str:
    undo = "The purge can be undone for an hour: copies of the messages are enqueued."
    if keep_history == 0:
        return undo + " The queue keeps no history, so they cannot be restored after that."
    days = "a day" if keep_history == 1 else f"{count(keep_history)} days"
    return undo + f" Each of them can be replayed from history for {days}."


class UndoPurge(QueueAct):
    path = "/queues/{name}/undo-purge"
    suffix = ""

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        purge = await visit.run(last_purge(name + self.suffix))
        return Question(
            title=f"Undo the purge of {name}{self.suffix}",
            button="Undo the purge",
            back=queue_path(name),
            text=[
                "Copies of the messages are enqueued, with new ids. A message whose key waits "
                "again is skipped."
            ],
            count=0 if purge is None else purge.count,
            unit="messages were purged",
            facts={} if purge is None else {"Purged": moment(purge.purged_at)},
        )

    async def do(self, visit: Visit) -> Deed:
        name = self.name(visit)
        return Deed(
            command=write.undo_purge(name + self.suffix),
            act="undo purge",
            target=name + self.suffix,
            to=queue_path(name),
            answer_is="count",
        )


class UndoPurgeDead(UndoPurge):
    path = "/queues/{name}/undo-purge-dead"
    suffix = ".dlq"


def confirm_field(visit: Visit, name: str) -> Field:
    """Typing the name shows that the visitor means this queue."""
    return Field(
        name="confirm",
        label=f"Type the name of the queue: {name}",
        value=visit.asked("confirm") or "",
        required=True,
    )


def check_confirmed(visit: Visit, name: str) -> None:
    if visit.asked("confirm") != name:
        raise refused("confirm", visit.asked("confirm") or "", name)


class Drop(QueueAct):
    path = "/queues/{name}/drop"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        stats = await visit.run(read.stats(name))
        held = stats.ready + stats.scheduled + stats.leased + stats.dead
        return Question(
            title=f"Drop {name}",
            button="Drop the queue",
            back=queue_path(name),
            text=[
                "The queue, its settings and its schedules are removed, with every message "
                "that it contains. History stays for its retention time."
            ],
            count=held,
            unit="messages would be lost",
            estimated=stats.estimated,
            fields=[confirm_field(visit, name)],
            danger=True,
        )

    async def do(self, visit: Visit) -> Deed:
        name = self.name(visit)
        check_confirmed(visit, name)
        return Deed(
            command=write.drop_queue(name, force=True),
            act="drop queue",
            target=name,
            to="/queues",
            answer_is="count",
        )


class Redrive(QueueAct):
    """A redrive by filter: an error, a range of ids, single ids. The address has the filter."""

    path = "/queues/{name}/redrive"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        filter = redrive_filter(visit)
        dry = write.redrive(name, **filter, max_count=COUNTED, dry_run=True)
        found = await visit.run(dry)
        rate = visit.asked("per_second") or ""
        room = await self._room(visit, name)
        return Question(
            title=f"Redrive dead letters of {name}",
            button="Redrive",
            back=f"/dead-letters?queue={name}",
            text=["They go back into their queue and start again at their first attempt."],
            count=found,
            unit="dead letters match" + (", or more" if found == COUNTED else ""),
            facts=redrive_facts(visit) | room,
            fields=[
                *(
                    Field(name=name, kind="hidden", value=value)
                    for name in ("error_like", "id_from", "id_to", "id")
                    for value in visit.asked_all(name)
                ),
                limit_field(visit),
                Field(
                    name="per_second",
                    label="Messages per second",
                    kind="number",
                    value=rate,
                    hint="Empty: all at once. A rate protects the service that they failed on.",
                ),
            ],
        )

    async def _room(self, visit: Visit, name: str) -> dict[str, str]:
        """The room in a queue with a limit. No more messages are redriven."""
        limit = (await visit.run(read.queue(name))).settings.max_depth
        if limit is None:
            return {}
        stats = await visit.run(read.stats(name))
        free = max(0, limit - stats.ready - stats.scheduled - stats.leased)
        return {
            "Room in the queue": f"{_about(stats, free)} of {count(limit)}; no more are redriven"
        }

    async def do(self, visit: Visit) -> Deed:
        name, limit = self.name(visit), limit_of(visit)
        filter = redrive_filter(visit)
        per_second = _rate(visit)
        return Deed(
            command=write.redrive(name, **filter, max_count=limit, per_second=per_second),
            act="redrive",
            target=name,
            to=queue_path(name),
            details={**filter, "limit": limit, "per_second": per_second},
            answer_is="count",
        )


def redrive_filter(visit: Visit) -> dict[str, Any]:
    ids = [_id("id", text) for text in visit.asked_all("id")]
    return {
        "error_like": visit.asked("error_like"),
        "id_from": _id("id_from", visit.asked("id_from")),
        "id_to": _id("id_to", visit.asked("id_to")),
        "ids": ids or None,
    }


def redrive_facts(visit: Visit) -> dict[str, str]:
    facts = {}
    if error := visit.asked("error_like"):
        facts["Error like"] = error
    if visit.asked("id_from") or visit.asked("id_to"):
        facts["Ids"] = f"{visit.asked('id_from') or 'first'} to {visit.asked('id_to') or 'last'}"
    if ids := visit.asked_all("id"):
        facts["Chosen"] = ", ".join(ids[:20]) + (" ..." if len(ids) > 20 else "")
    return facts or {"Filter": "none: all of them"}


def _id(field: str, text: str | None) -> int | None:
    return whole_of(field, text, "the id of a message")


def _rate(visit: Visit) -> float | None:
    rate = decimal_of(visit, "per_second", None)
    if rate is not None and not 0 < rate <= 1_000_000:
        raise refused(
            "per_second", visit.asked("per_second") or "", "a number above 0, up to 1000000"
        )
    return rate


async def check_there(visit: Visit, name: str) -> None:
    """QueueNotFoundError if the queue does not exist."""
    try:
        await visit.run(read.queue(name))
    except QueueNotFoundError as error:
        raise refused("queue", name, "a queue that exists") from error


ACTS: Final = (
    Pause(),
    Resume(),
    Purge(),
    PurgeDead(),
    UndoPurge(),
    UndoPurgeDead(),
    Redrive(),
    Drop(),
)
