"""What to do about each kind of finding and each alert of deploy/prometheus.

docs/how-to/runbooks.md has the same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Runbook:
    """A kind of finding: its singular and plural name, its meaning, and what to do."""

    title: str
    many: str  # for several findings; {} is their number
    advice: str  # the first step, in one line
    meaning: str
    steps: tuple[str, ...]


RUNBOOKS: Final[dict[str, Runbook]] = {
    "no-worker": Runbook(
        "A queue has no worker",
        "{} queues have no worker",
        "Start a worker for the queue.",
        "Messages have been ready for more than a minute, no consumer holds a lease on the queue, "
        "and no message was done in the last five minutes. A queue that keeps no history does not "
        "show what was done, so it is reported as falling behind instead.",
        (
            "Open Workers. Is the process that handles this queue listed, and not silent?",
            "Start or restart it. Its log says why it stopped.",
            "If no process should handle the queue, purge it and stop its producers.",
        ),
    ),
    "full": Runbook(
        "A queue is full or nearly full",
        "{} queues are full or nearly full",
        "Claim faster, or raise the limit.",
        "The waiting and leased messages have reached the queue's max_depth, or 90 % of it. A full "
        "queue refuses enqueue.",
        (
            "See whether its workers keep up. If they do not, start more of them.",
            "Raise the limit under Settings if the database has room.",
            "Look for a producer that enqueues more than usual.",
        ),
    ),
    "behind": Runbook(
        "A queue is falling behind",
        "{} queues are falling behind",
        "Start more workers.",
        "Workers finish messages, but the oldest one has been ready for more than ten minutes.",
        (
            "Compare the run times on the page of the queue with those of yesterday.",
            "Start more workers, or raise their concurrency.",
            "Check whether max_in_flight or throughput_limit of the queue is too low.",
        ),
    ),
    "failing": Runbook(
        "Most attempts on a queue fail",
        "Most attempts on {} queues fail",
        "Read the latest errors.",
        "More attempts failed than succeeded in the last five minutes.",
        (
            "Open a message of the queue and read its last error.",
            "If a service that the handlers need is down, pause the queue until it is back.",
            "If a release broke the handler, roll it back, then redrive the dead letters.",
        ),
    ),
    "paused": Runbook(
        "A queue is paused and messages wait",
        "{} queues are paused and messages wait",
        "Resume it when the reason no longer exists.",
        "An operator paused the queue. Messages are enqueued, but cannot be claimed.",
        (
            "Activity shows who paused it, and when.",
            "Resume it when the reason for the pause no longer exists.",
        ),
    ),
    "dead-letters": Runbook(
        "A queue has dead letters",
        "{} queues have dead letters",
        "Fix the cause, then redrive them.",
        "Messages have used up their attempts. They stay until they are redriven or purged.",
        (
            "Dead letters shows them by cause, with examples.",
            "Fix the cause. Then redrive one kind, at a rate that the service can handle.",
            "Purge those that are no longer needed.",
        ),
    ),
    "silent-worker": Runbook(
        "A worker is silent",
        "{} workers are silent",
        "Look for the process on its host.",
        "A worker has not reported for 30 seconds, and did not sign off. Its messages are "
        "delivered again when their leases expire.",
        (
            "Look for the process on the host that Workers names. Was it killed, or is it stuck?",
            "Restart it. A worker that does not return leaves the list after a day.",
        ),
    ),
    "schedule": Runbook(
        "A schedule does not fire",
        "{} schedules do not fire",
        "Read its error under Schedules.",
        "A schedule could not enqueue its message, or has been due for more than two minutes.",
        (
            "If it has an error, remove the cause: a full queue, or a payload that is too large.",
            "If it is only late, no worker or server is running to fire it. Start one.",
            "Fire it by hand if its message is needed now.",
        ),
    ),
    "horizon": Runbook(
        "A transaction pins the horizon",
        "{} transactions pin the horizon",
        "End the session under System.",
        "PostgreSQL cannot remove old row versions while the oldest transaction is open. Penstock "
        "stays fast, but the tables of the application grow.",
        (
            "System shows the session, its application and how long it has been open.",
            "Let it commit, or end it.",
            "Set idle_in_transaction_session_timeout to prevent the next one.",
        ),
    ),
    "lake": Runbook(
        "A lake is behind",
        "{} lakes are behind",
        "Run penstock lake run.",
        "Finished messages have not been landed for more than an hour. History is kept until then.",
        (
            "Run `penstock lake run`, and read its output.",
            "If the lake is no longer used, unregister it, so that history can be removed.",
        ),
    ),
    "server-down": Runbook(
        "No server answers Prometheus",
        "{} servers do not answer Prometheus",
        "Look at the server process and its log.",
        "Prometheus has had no metrics from any server for five minutes. Workers and SQL clients "
        "do not need the server, so messages may still be processed.",
        (
            "Open `/healthz/live` of the server. Without an answer, the process has ended, and "
            "its log has the reason.",
            "With an answer, see Targets in Prometheus. An answer 401 or 403 means that the API "
            "key has expired, was revoked or lacks the scope read.",
            "Start the server again. All state is in the database.",
        ),
    ),
    "database": Runbook(
        "The database does not answer",
        "{} servers do not reach the database",
        "Look at PostgreSQL.",
        "The servers answer status 503, and workers wait and try again. No committed message is "
        "lost, and no attempt is used up while workers wait.",
        (
            "Connect with psql from the host of the server, with the same DSN.",
            "If PostgreSQL refuses connections because it has too many, use smaller pools or raise "
            "max_connections.",
            "After a failover, check that the host name in the DSN points to the new primary.",
            "Servers and workers reconnect by themselves. They need no restart.",
        ),
    ),
    "leases": Runbook(
        "Leases expire",
        "Leases expire on {} queues",
        "Find out which handlers take too long.",
        "More than ten leases expired in 15 minutes. Workers were killed, or lost the database "
        "for longer than the lease. Their messages are delivered again.",
        (
            "Look for workers that were killed: out of memory, or after too short a grace period.",
            "Look for handlers that block the event loop: the worker cannot extend leases then.",
            "Raise lease_seconds of the queue if the network to the database often fails.",
        ),
    ),
    "ring": Runbook(
        "The ring has no free segment",
        "{} rings have no free segment",
        "Look for very old leases.",
        "Tables of finished messages are emptied and used again in turn. A lease that is held for "
        "a long time keeps its table in use. Penstock stays correct, but the current table grows.",
        (
            "Workers shows the oldest leases. Let them end, or stop the worker that holds them.",
            "Check that the horizon is not pinned: see the runbook on it.",
        ),
    ),
    "rescan": Runbook(
        "A rescan found a message that claims had missed",
        "Rescans found {} messages that claims had missed",
        "Report it, with the version and the log of PostgreSQL.",
        "A rescan looks for messages that claims overlooked. It found one and delivered it, later "
        "than it should have been.",
        (
            "Look for a crash of PostgreSQL or a clock that was set back at that time.",
            "If there was none, report it as a bug, with `penstock doctor --json`.",
        ),
    ),
}


def as_markdown() -> str:
    """The page of the documentation."""
    lines = [
        "# Runbooks",
        "",
        "What each finding on the overview and each alert means, and what to do about it. The "
        "admin UI has the same text under `/runbooks`.",
    ]
    for name, each in RUNBOOKS.items():
        lines += ["", f"## {each.title} {{ #{name} }}", "", each.meaning, ""]
        lines += [f"{number}. {step}" for number, step in enumerate(each.steps, 1)]
    return "\n".join(lines) + "\n"
