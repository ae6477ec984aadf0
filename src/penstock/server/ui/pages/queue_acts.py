"""What operators do to queues."""

from __future__ import annotations

from typing import Any, Final

from penstock import insights, operations
from penstock.errors import QueueNotFoundError
from penstock.queue import Backoff, QueueSettings
from penstock.server.problems import HttpError
from penstock.server.ui.acts import Act, Deed, Field, Question
from penstock.server.ui.diagnosis import queue_path
from penstock.server.ui.formats import count, duration
from penstock.server.ui.visits import Visit, refused

LIMITS: Final = ("1000", "100", "10000", "100000")
COUNTED: Final = 10_000
# Label, and what is allowed: the database has the last word.
WHOLE: Final = {
    "lease_seconds": ("Lease, seconds", "1 to 43,200"),
    "max_attempts": ("Attempts", "1 to 100"),
    "message_ttl_seconds": ("Time to live, seconds", "1 to 315,360,000; empty: none"),
    "max_depth": ("Most messages waiting and leased", "1 to 1,000,000,000; empty: no limit"),
    "throughput_limit": ("Most claims a second", "1 to 1,000,000; empty: no limit"),
    "max_in_flight": ("Most leased at once", "1 to 1,000,000; empty: no limit"),
    "max_payload_bytes": ("Largest payload, bytes", "1 to 104,857,600"),
    "keep_history": ("Days of history", "0 to 3,650; 0: none"),
}


def limit_field(visit: Visit) -> Field:
    return Field(
        name="limit",
        label="At most",
        kind="select",
        value=visit.asked("limit") or LIMITS[0],
        options=[(each, count(int(each))) for each in sorted(LIMITS, key=int)],
        hint="The rest stays; it can be done again.",
    )


def limit_of(visit: Visit) -> int:
    return int(visit.asked_one("limit", LIMITS))


class QueueAct(Act):
    """One that is about a queue that is there."""

    def name(self, visit: Visit) -> str:
        name = visit.path["name"]
        visit.principal.require("operate", name)
        return name


class Pause(QueueAct):
    path = "/queues/{name}/pause"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        stats = await visit.run(insights.stats(name))
        return Question(
            title=f"Pause {name}",
            button="Pause",
            back=queue_path(name),
            text=["No message of it is handed out until it is resumed. Enqueue goes on."],
            count=stats.ready,
            unit="messages are ready and would wait",
            facts={"In work, not touched": count(stats.leased)},
        )

    async def do(self, visit: Visit) -> Deed:
        name = self.name(visit)
        return Deed(command=operations.pause(name), act="pause", target=name, to=queue_path(name))


class Resume(QueueAct):
    path = "/queues/{name}/resume"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        stats = await visit.run(insights.stats(name))
        oldest = stats.oldest_ready_seconds
        return Question(
            title=f"Resume {name}",
            button="Resume",
            back=queue_path(name),
            text=["Its messages are handed out again, at once."],
            count=stats.ready,
            unit="messages are ready",
            facts={} if oldest is None else {"The oldest waits for": duration(oldest)},
        )

    async def do(self, visit: Visit) -> Deed:
        name = self.name(visit)
        return Deed(command=operations.resume(name), act="resume", target=name, to=queue_path(name))


class Purge(QueueAct):
    path = "/queues/{name}/purge"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        stats = await visit.run(insights.stats(name))
        about = "about " if stats.estimated else ""
        return Question(
            title=f"Purge {name}",
            button="Purge",
            back=queue_path(name),
            text=[
                "Messages that wait are cancelled, and not delivered. This cannot be undone, "
                "but what is in history can be replayed."
            ],
            count=stats.ready + stats.scheduled,
            unit="messages wait",
            facts={
                "Ready": about + count(stats.ready),
                "Scheduled": about + count(stats.scheduled),
                "In work, not touched": count(stats.leased),
            },
            fields=[limit_field(visit)],
            danger=True,
        )

    async def do(self, visit: Visit) -> Deed:
        name, limit = self.name(visit), limit_of(visit)
        return Deed(
            command=operations.purge(name, max_count=limit),
            act="purge",
            target=name,
            to=queue_path(name),
            details={"limit": limit},
            answer_is="count",
        )


class PurgeDead(QueueAct):
    path = "/queues/{name}/purge-dead"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        stats = await visit.run(insights.stats(name))
        return Question(
            title=f"Purge the dead letters of {name}",
            button="Purge dead letters",
            back=queue_path(name),
            text=[
                "They are cancelled. This cannot be undone, but what is in history can be replayed."
            ],
            count=stats.dead,
            unit="dead letters",
            fields=[limit_field(visit)],
            danger=True,
        )

    async def do(self, visit: Visit) -> Deed:
        name, limit = self.name(visit), limit_of(visit)
        return Deed(
            command=operations.purge(f"{name}.dlq", max_count=limit),
            act="purge",
            target=f"{name}.dlq",
            to=queue_path(name),
            details={"limit": limit},
            answer_is="count",
        )


class Drop(QueueAct):
    path = "/queues/{name}/drop"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        stats = await visit.run(insights.stats(name))
        held = stats.ready + stats.scheduled + stats.leased + stats.dead
        return Question(
            title=f"Drop {name}",
            button="Drop the queue",
            back=queue_path(name),
            text=[
                "The queue, its settings and its schedules are removed, with every message "
                "that it holds. History stays until it is too old."
            ],
            count=held,
            unit="messages would be lost",
            fields=[
                Field(
                    name="confirm",
                    label=f"Type the name of the queue: {name}",
                    value=visit.asked("confirm") or "",
                    required=True,
                )
            ],
            danger=True,
        )

    async def do(self, visit: Visit) -> Deed:
        name = self.name(visit)
        if visit.asked("confirm") != name:
            raise refused("confirm", visit.asked("confirm") or "", name)
        return Deed(
            command=operations.drop_queue(name, force=True),
            act="drop queue",
            target=name,
            to="/queues",
            answer_is="count",
        )


class Redrive(QueueAct):
    """By filter: an error, a range of ids, single ids. The filter is in the address."""

    path = "/queues/{name}/redrive"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        filter = redrive_filter(visit)
        dry = operations.redrive(name, **filter, max_count=COUNTED, dry_run=True)
        found = await visit.run(dry)
        rate = visit.asked("per_second") or ""
        return Question(
            title=f"Redrive dead letters of {name}",
            button="Redrive",
            back=f"/dead-letters?queue={name}",
            text=["They are put back into their queue, and start again at their first attempt."],
            count=found,
            unit="dead letters match" + (", or more" if found == COUNTED else ""),
            facts=redrive_facts(visit),
            fields=[
                *(
                    Field(name=name, kind="hidden", value=value)
                    for name in ("error_like", "id_from", "id_to", "id")
                    for value in visit.asked_all(name)
                ),
                limit_field(visit),
                Field(
                    name="per_second",
                    label="At most so many a second",
                    kind="number",
                    value=rate,
                    hint="Empty: all at once. A rate spares whatever they failed on.",
                ),
            ],
        )

    async def do(self, visit: Visit) -> Deed:
        name, limit = self.name(visit), limit_of(visit)
        filter = redrive_filter(visit)
        per_second = _rate(visit)
        return Deed(
            command=operations.redrive(name, **filter, max_count=limit, per_second=per_second),
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
    if text is None or not text.strip():
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise refused(field, text, "the id of a message")
    return int(text)


def _rate(visit: Visit) -> float | None:
    text = visit.asked("per_second")
    try:
        rate = None if text is None else float(text)
    except ValueError:
        rate = -1.0
    if rate is not None and not 0 < rate <= 1_000_000:
        raise refused("per_second", text or "", "a number above 0, up to 1000000")
    return rate


def settings_fields(visit: Visit, now: QueueSettings) -> list[Field]:
    def value(name: str, current: Any) -> str:
        if name in visit.form:
            return visit.form[name][0]
        return "" if current is None else str(current)

    fields = [
        Field(
            name=name, label=label, kind="number", hint=hint, value=value(name, getattr(now, name))
        )
        for name, (label, hint) in WHOLE.items()
    ]
    dlq = visit.form.get("dlq_enabled", ["on"]) == ["on"] if visit.form else now.dlq_enabled
    fields.append(
        Field(
            name="dlq_enabled",
            label="Keep dead letters",
            kind="checkbox",
            value="on" if dlq else "",
            hint="Else exhausted messages end in history.",
        )
    )
    kinds = [(kind, kind) for kind in ("exponential", "linear", "constant")]
    fields.append(
        Field(
            name="backoff_kind",
            label="Backoff",
            kind="select",
            options=kinds,
            value=value("backoff_kind", now.backoff.kind),
        )
    )
    for name, label in (
        ("base_seconds", "Backoff, first seconds"),
        ("max_seconds", "Backoff, most seconds"),
        ("jitter", "Backoff, jitter"),
    ):
        fields.append(
            Field(
                name=f"backoff_{name}",
                label=label,
                kind="decimal",
                value=value(f"backoff_{name}", getattr(now.backoff, name)),
                hint="0 to 1" if name == "jitter" else "",
            )
        )
    return fields


def settings_of(visit: Visit, now: QueueSettings) -> dict[str, Any]:
    """The settings that the form changes."""
    wanted: dict[str, Any] = {name: _whole(visit, name) for name in WHOLE}
    wanted["dlq_enabled"] = visit.asked("dlq_enabled") == "on"
    wanted["backoff"] = {
        "kind": visit.asked("backoff_kind") or "exponential",
        **{
            name: _decimal(visit, f"backoff_{name}", getattr(Backoff(), name))
            for name in ("base_seconds", "max_seconds", "jitter")
        },
    }
    before = now.as_dict()
    defaults = QueueSettings().as_dict()
    return {
        name: value
        for name, value in wanted.items()
        # An empty field is the default, which is what it may be already.
        if (defaults[name] if value is None else value) != before[name]
    }


def _whole(visit: Visit, name: str) -> int | None:
    text = visit.asked(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise refused(name, text, WHOLE[name][1])
    return int(text)


def _decimal(visit: Visit, name: str, default: float) -> float:
    text = visit.asked(name)
    try:
        return default if text is None else float(text)
    except ValueError:
        raise refused(name, text or "", "a number") from None


class Settings(QueueAct):
    path = "/queues/{name}/settings"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        found = await visit.run(insights.queue(name))
        return Question(
            title=f"Settings of {name}",
            button="Save",
            back=queue_path(name),
            text=["A change holds from the next call on, on every instance."],
            fields=settings_fields(visit, found.settings),
        )

    async def do(self, visit: Visit) -> Deed:
        name = self.name(visit)
        found = await visit.run(insights.queue(name))
        changes = settings_of(visit, found.settings)
        if not changes:
            raise HttpError(422, "NothingToChange", "no setting was changed")
        return Deed(
            command=operations.set_queue(name, changes=changes),
            act="set queue",
            target=name,
            to=queue_path(name),
            details={"settings": changes},
        )


class Create(Act):
    path = "/queues/create"

    async def ask(self, visit: Visit) -> Question:
        name = Field(
            name="queue",
            label="Name",
            value=visit.asked("queue") or "",
            required=True,
            hint="1 to 128 lowercase letters, digits, and - _ .",
        )
        return Question(
            title="Create a queue",
            button="Create",
            back="/queues",
            fields=[name, *settings_fields(visit, QueueSettings())],
        )

    async def do(self, visit: Visit) -> Deed:
        name = visit.asked("queue") or ""
        visit.principal.require("operate", name)
        changes = settings_of(visit, QueueSettings())
        return Deed(
            command=operations.create_queue(name, changes=changes),
            act="create queue",
            target=name,
            to=queue_path(name),
            details={"settings": changes},
        )


async def check_there(visit: Visit, name: str) -> None:
    """QueueNotFoundError, unless there is a queue of this name."""
    try:
        await visit.run(insights.queue(name))
    except QueueNotFoundError as error:
        raise refused("queue", name, "a queue that exists") from error


ACTS: Final = (Create(), Settings(), Pause(), Resume(), Purge(), PurgeDead(), Redrive(), Drop())
