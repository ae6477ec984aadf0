"""Each verb as a function that returns a Command. No I/O: a client or your own driver runs it.

The statements only call the functions of the schema. sql/functions implements the verbs.
"""

from penstock.commands.command import Command
from penstock.commands.write.enqueueing import enqueue, enqueue_many
from penstock.commands.write.leases import (
    ack,
    ack_many,
    claim,
    extend,
    extend_many,
    nack,
    nack_many,
    reject,
    reject_many,
    snooze,
    snooze_many,
)
from penstock.commands.write.messages import cancel, move, redrive, replay, set_priority
from penstock.commands.write.queues import (
    create_queue,
    drop_queue,
    maintain,
    pause,
    purge,
    resume,
    set_queue,
    undo_purge,
)
from penstock.commands.write.schedules import (
    create_schedule,
    drop_schedule,
    fire_schedule,
    fire_schedules,
    next_fires,
    pause_schedule,
    resume_schedule,
    set_schedule,
)
from penstock.commands.write.workers import command_worker

__all__ = [  # noqa: RUF022 - grouped as the life of a message goes
    "Command",
    # queues
    "create_queue",
    "set_queue",
    "drop_queue",
    "pause",
    "resume",
    "purge",
    "undo_purge",
    "maintain",
    "command_worker",
    # enqueue
    "enqueue",
    "enqueue_many",
    # with a lease
    "claim",
    "ack",
    "ack_many",
    "nack",
    "nack_many",
    "reject",
    "reject_many",
    "snooze",
    "snooze_many",
    "extend",
    "extend_many",
    # by id
    "cancel",
    "redrive",
    "replay",
    "move",
    "set_priority",
    # background work
    "create_schedule",
    "set_schedule",
    "drop_schedule",
    "pause_schedule",
    "resume_schedule",
    "fire_schedule",
    "fire_schedules",
    "next_fires",
]
