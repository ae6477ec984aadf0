"""The settings of an existing or a new queue."""

from __future__ import annotations

from typing import Any, Final

from penstock.commands import read, write
from penstock.model.queue import Backoff, QueueSettings
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.forms import decimal_of, name_field, require_changes, typed, whole_of
from penstock.server.ui.pages.queue_actions import QueueAct
from penstock.server.ui.paths import queue_path
from penstock.server.ui.visits import Visit

# Label and allowed values. The database checks them.
WHOLE: Final = {
    "lease_seconds": ("Lease, seconds", "1 to 43,200"),
    "max_attempts": ("Maximum attempts", "1 to 100"),
    "message_ttl_seconds": ("Time to live, seconds", "1 to 315,360,000; empty: none"),
    "max_depth": ("Maximum depth", "1 to 1,000,000,000; empty: no limit"),
    "throughput_limit": ("Maximum claims per second", "1 to 1,000,000; empty: no limit"),
    "max_in_flight": ("Maximum leased at once", "1 to 1,000,000; empty: no limit"),
    "max_payload_bytes": ("Maximum payload, bytes", "1 to 104,857,600"),
    "keep_history": ("Days of history", "0 to 3,650; 0: none"),
}
BACKOFF: Final = {
    "base_seconds": ("Backoff, first delay in seconds", ""),
    "max_seconds": ("Backoff, maximum delay in seconds", ""),
    "jitter": ("Backoff, jitter", "0 to 1"),
}
KINDS: Final = ("exponential", "linear", "constant")


class Settings(QueueAct):
    path = "/queues/{name}/settings"

    async def ask(self, visit: Visit) -> Question:
        name = self.name(visit)
        found = await visit.run(read.queue(name))
        return Question(
            title=f"Settings of {name}",
            button="Save",
            back=queue_path(name),
            text=["Changes apply to the next call of every server and worker."],
            fields=settings_fields(visit, found.settings),
        )

    async def do(self, visit: Visit) -> Deed:
        name = self.name(visit)
        found = await visit.run(read.queue(name))
        changes = settings_of(visit, found.settings)
        require_changes(changes)
        return Deed(
            command=write.set_queue(name, changes=changes),
            act="set queue",
            target=name,
            to=queue_path(name),
            details={"settings": changes},
        )


class Create(Act):
    path = "/queues/create"

    async def ask(self, visit: Visit) -> Question:
        if name := visit.asked("queue"):
            visit.principal.require("operate", name)
        return Question(
            title="Create a queue",
            button="Create",
            back="/queues",
            fields=[name_field(visit, "queue"), *settings_fields(visit, QueueSettings())],
        )

    async def do(self, visit: Visit) -> Deed:
        name = visit.asked("queue") or ""
        visit.principal.require("operate", name)
        changes = settings_of(visit, QueueSettings())
        return Deed(
            command=write.create_queue(name, changes=changes),
            act="create queue",
            target=name,
            to=queue_path(name),
            details={"settings": changes},
        )


def settings_fields(visit: Visit, now: QueueSettings) -> list[Field]:
    dlq = visit.asked("dlq_enabled") == "on" if visit.form else now.dlq_enabled
    return [
        *(
            Field(
                name=name,
                label=label,
                kind="number",
                hint=hint,
                value=typed(visit, name, getattr(now, name)),
            )
            for name, (label, hint) in WHOLE.items()
        ),
        Field(
            name="dlq_enabled",
            label="Keep dead letters",
            kind="checkbox",
            value="on" if dlq else "",
            hint="Otherwise exhausted messages end in history.",
        ),
        Field(
            name="backoff_kind",
            label="Backoff",
            kind="select",
            options=[(kind, kind) for kind in KINDS],
            value=typed(visit, "backoff_kind", now.backoff.kind),
        ),
        *(
            Field(
                name=f"backoff_{name}",
                label=label,
                kind="decimal",
                hint=hint,
                value=typed(visit, f"backoff_{name}", getattr(now.backoff, name)),
            )
            for name, (label, hint) in BACKOFF.items()
        ),
    ]


def settings_of(visit: Visit, now: QueueSettings) -> dict[str, Any]:
    """The settings that the form changes."""
    wanted: dict[str, Any] = {
        name: whole_of(name, visit.asked(name), allowed) for name, (_, allowed) in WHOLE.items()
    }
    wanted["dlq_enabled"] = visit.asked("dlq_enabled") == "on"
    wanted["backoff"] = {
        "kind": visit.asked("backoff_kind") or KINDS[0],
        **{
            name: decimal_of(visit, f"backoff_{name}", getattr(Backoff(), name)) for name in BACKOFF
        },
    }
    before = now.as_dict()
    defaults = QueueSettings().as_dict()
    return {
        name: value
        for name, value in wanted.items()
        # An empty field means the default, which may be the current value.
        if (defaults[name] if value is None else value) != before[name]
    }


ACTS: Final = (Create(), Settings())
