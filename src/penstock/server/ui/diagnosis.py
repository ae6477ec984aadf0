"""Findings: the problems of the queues, the most severe first. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Literal
from urllib.parse import quote, urlencode

from penstock.model.monitoring import FindingNote, HorizonHolder, RecentOutcomes
from penstock.model.queue import Queue, QueueStats
from penstock.server.monitoring.snapshots import Snapshot
from penstock.server.ui.formats import ago, count, duration
from penstock.server.ui.runbooks import RUNBOOKS

Severity = Literal["critical", "warning", "note"]
_ORDER: Final = {"critical": 0, "warning": 1, "note": 2}
# A message that waits longer than this has no consumer.
LATE_SECONDS: Final = 60
VERY_LATE_SECONDS: Final = 600
FRESH: Final = timedelta(minutes=15)
# The time that the rates and outcomes of a snapshot cover.
RECENT_SECONDS: Final = 300
# Fewer attempts than this say nothing about the failure rate.
ENOUGH_ATTEMPTS: Final = 20
PINNED_SECONDS: Final = 60
LONG_PINNED_SECONDS: Final = 600
# A slot has no clock, only a distance.
PINNED_XIDS: Final = 1_000_000
ENOUGH_TO_GROUP: Final = 3
NAMED: Final = 5
# Findings whose subject is a queue.
QUEUE_KINDS: Final = frozenset(
    {"no-worker", "full", "behind", "failing", "paused", "dead-letters", "leases"}
)
# The page that lists the findings of a kind.
LISTS: Final = {
    **{kind: f"/queues?only={kind}" for kind in QUEUE_KINDS},
    "dead-letters": "/dead-letters",
    "silent-worker": "/workers",
    "schedule": "/schedules",
    "horizon": "/system#horizon",
    "lake": "/analytics",
    "ring": "/system",
    "rescan": "/system",
}
# The lag of a lake that is a finding.
LAKE_SECONDS: Final = 3600
# The number of leases that expired in 15 minutes that is still normal: a worker was killed.
EXPIRED_LEASES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem, with a link and the next step.

    `kind` names its runbook, and `subject` the queue, worker, schedule or lake. `impact` is how
    many messages it concerns, and `count` how many findings of its kind are in it. `note` is there
    if an operator acknowledged or muted it.
    """

    kind: str
    subject: str
    severity: Severity
    title: str
    text: str
    href: str
    queue: str | None = None
    act: str | None = None
    act_href: str | None = None
    impact: int = 0
    count: int = 1
    note: FindingNote | None = None

    @property
    def is_muted(self) -> bool:
        return self.note is not None and self.note.state == "muted"

    @property
    def identity(self) -> str:
        """The same for the same trouble, even if its numbers change."""
        return f"{self.kind}:{self.subject}"

    @property
    def advice(self) -> str:
        return RUNBOOKS[self.kind].advice


def diagnose(snapshot: Snapshot) -> list[Finding]:
    """All findings, the most severe first, and of these the ones with the greatest impact."""
    found = [
        *_queues(snapshot),
        *_dead(snapshot),
        *_workers(snapshot),
        *_schedules(snapshot),
        *_horizon(snapshot.horizon),
        *_leases(snapshot.expired),
        *_engine(snapshot),
        *_lakes(snapshot),
    ]
    return sorted(_noted(found, snapshot), key=_rank)


def _noted(findings: list[Finding], snapshot: Snapshot) -> Iterator[Finding]:
    """The findings with their notes. A note does not count for a finding that got worse."""
    notes = {(note.kind, note.subject): note for note in snapshot.notes}
    for finding in findings:
        note = notes.get((finding.kind, finding.subject))
        counts = (
            note is not None
            and note.until_at > snapshot.at
            and _ORDER[finding.severity] >= _ORDER.get(note.severity, 0)
        )
        yield replace(finding, note=note) if counts else finding


def grouped(findings: list[Finding]) -> list[Finding]:
    """One finding for three or more of a kind, so that no kind hides another.

    New findings are not grouped with those that were acknowledged or muted.
    """
    kinds: dict[tuple[str, str, bool, bool], list[Finding]] = {}
    for finding in findings:
        group = (finding.kind, finding.severity, finding.note is not None, finding.is_muted)
        kinds.setdefault(group, []).append(finding)
    found: list[Finding] = []
    for members in kinds.values():
        found += members if len(members) < ENOUGH_TO_GROUP else [_group(members)]
    return sorted(found, key=_rank)


def _group(members: list[Finding]) -> Finding:
    first, impact = members[0], sum(member.impact for member in members)
    names = [member.queue or member.title for member in members]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    messages = f", with {count(impact)} message{'' if impact == 1 else 's'}" if impact else ""
    return Finding(
        kind=first.kind,
        subject="",
        severity=first.severity,
        title=RUNBOOKS[first.kind].many.format(count(len(members))),
        text=f"{', '.join(names[:NAMED])}{more}{messages}.",
        href=LISTS[first.kind],
        impact=impact,
        count=len(members),
        note=first.note,
    )


def _rank(finding: Finding) -> tuple[bool, int, int]:
    """New findings first, then by severity and impact."""
    return (finding.note is not None, _ORDER[finding.severity], -finding.impact)


def queue_path(name: str, rest: str = "") -> str:
    return f"/queues/{quote(name, safe='')}/{rest}"


def messages_path(**query: str) -> str:
    return f"/messages?{urlencode(query)}"


def _queues(snapshot: Snapshot) -> Iterator[Finding]:
    settings = {queue.name: queue for queue in snapshot.queues}
    served = _served(snapshot)
    is_known = snapshot.outcomes.is_current or _sample_is_complete(snapshot)
    for stats in snapshot.exact:
        queue = settings.get(stats.queue)
        if queue is not None:
            yield from _queue(queue, stats, stats.queue in served, is_known)
        yield from _failing(stats.queue, snapshot.outcomes)


def _served(snapshot: Snapshot) -> set[str]:
    """The queues on which a consumer works. A consumer with SQL shows only in its results."""
    served = {lease.queue for lease in snapshot.leases}
    for beat in snapshot.heartbeats:
        if beat.alive and beat.state == "running":
            served.update(beat.queues)
    served |= {rate.queue for rate in snapshot.finished if rate.state == "done"}
    return served | {queue for queue, done in snapshot.outcomes.done.items() if done}


def _sample_is_complete(snapshot: Snapshot) -> bool:
    """Whether the sample has every message that finished in the last five minutes."""
    return all(rate.seconds >= RECENT_SECONDS for rate in snapshot.finished)


def _queue(queue: Queue, stats: QueueStats, served: bool, is_known: bool) -> Iterator[Finding]:
    name, oldest = queue.name, stats.oldest_ready_seconds or 0
    keeps_history = queue.settings.keep_history > 0
    if queue.paused:
        if stats.ready:
            yield Finding(
                kind="paused",
                subject=name,
                impact=stats.ready,
                severity="warning" if oldest >= LATE_SECONDS else "note",
                title=f"{name} is paused",
                text=f"{_ready(stats.ready)}, the oldest for {duration(oldest)}.",
                href=queue_path(name),
                queue=name,
                act="Resume",
                act_href=queue_path(name, "resume"),
            )
    elif oldest >= LATE_SECONDS and not served and keeps_history and is_known:
        yield Finding(
            kind="no-worker",
            subject=name,
            impact=stats.ready,
            severity="critical",
            title=f"{name} has no worker",
            text=f"{_ready(stats.ready)}, the oldest for {duration(oldest)}. "
            "No consumer holds a lease, and no message was done in the last five minutes.",
            href=queue_path(name),
            queue=name,
        )
    elif oldest >= VERY_LATE_SECONDS:
        yield Finding(
            kind="behind",
            subject=name,
            impact=stats.ready,
            severity="warning",
            title=f"{name} is falling behind",
            text=f"{_ready(stats.ready)}, the oldest for {duration(oldest)}."
            + ("" if served else _unknown(keeps_history)),
            href=queue_path(name),
            queue=name,
        )
    depth, limit = stats.ready + stats.scheduled + stats.leased, queue.settings.max_depth
    if limit is not None and depth >= 0.9 * limit:
        full = depth >= limit
        yield Finding(
            kind="full",
            subject=name,
            impact=depth,
            severity="critical" if full else "warning",
            title=f"{name} is {'full' if full else 'nearly full'}",
            text=f"{count(depth)} of at most {count(limit)} messages"
            + ("; enqueue is refused." if full else "."),
            href=queue_path(name, "settings"),
            queue=name,
        )


def _ready(number: int) -> str:
    return "1 message is ready" if number == 1 else f"{count(number)} messages are ready"


def _unknown(keeps_history: bool) -> str:
    why = "the charts are not up to date" if keeps_history else "the queue keeps no history"
    return f" No worker is known, but a consumer may run unseen: {why}."


def _failing(name: str, outcomes: RecentOutcomes) -> Iterator[Finding]:
    failed, done = outcomes.failed.get(name, 0), outcomes.done.get(name, 0)
    if failed + done >= ENOUGH_ATTEMPTS and failed > done:
        yield Finding(
            kind="failing",
            subject=name,
            impact=failed,
            severity="warning",
            title=f"Most attempts on {name} fail",
            text=f"{count(failed)} failed and {count(done)} succeeded in the last five minutes.",
            href=queue_path(name),
            queue=name,
        )


def _dead(snapshot: Snapshot) -> Iterator[Finding]:
    for stats in snapshot.exact:
        if not stats.dead:
            continue
        errors = [error for error in snapshot.errors if error.queue == stats.queue]
        fresh = [error for error in errors if snapshot.at - error.last_dead_at < FRESH]
        latest = max(errors, key=lambda error: error.last_dead_at, default=None)
        text = "No error was given."
        if latest is not None:
            text = f"The latest, {ago(latest.last_dead_at, snapshot.at)}: {latest.error or '-'}"
        many = f"{count(stats.dead)} dead letter{'' if stats.dead == 1 else 's'}"
        yield Finding(
            kind="dead-letters",
            subject=stats.queue,
            impact=stats.dead,
            severity="warning" if fresh else "note",
            title=f"{stats.queue} has {many}",
            text=text,
            href=f"/dead-letters?{urlencode({'queue': stats.queue})}",
            queue=stats.queue,
            act="Redrive",
            act_href=queue_path(stats.queue, "redrive"),
        )


def _workers(snapshot: Snapshot) -> Iterator[Finding]:
    for beat in snapshot.heartbeats:
        if not beat.alive:
            yield Finding(
                kind="silent-worker",
                subject=beat.worker,
                severity="warning",
                title=f"Worker {beat.worker} is silent",
                text=f"It was last seen {ago(beat.seen_at, snapshot.at)}, and did not sign off.",
                href="/workers",
            )


def _schedules(snapshot: Snapshot) -> Iterator[Finding]:
    for schedule in snapshot.schedules:
        late = (snapshot.at - schedule.next_fire_at).total_seconds() if schedule.next_fire_at else 0
        if schedule.last_error:
            text = f"It could not enqueue: {schedule.last_error}"
        elif late >= 2 * LATE_SECONDS:
            text = f"It has been due for {duration(late)}, but did not fire."
        else:
            continue
        yield Finding(
            kind="schedule",
            subject=schedule.name,
            severity="warning",
            title=f"Schedule {schedule.name} does not fire",
            text=text,
            href="/schedules",
            queue=schedule.queue,
        )


def _horizon(holders: list[HorizonHolder]) -> Iterator[Finding]:
    oldest = next(
        (h for h in holders if (h.age_seconds or 0) >= PINNED_SECONDS or h.xids >= PINNED_XIDS),
        None,
    )
    if oldest is None:
        return
    age = oldest.age_seconds
    long = age is None or age >= LONG_PINNED_SECONDS
    since = f"{count(oldest.xids)} transactions" if age is None else duration(age)
    yield Finding(
        kind="horizon",
        subject="",
        severity="warning" if long else "note",
        title=f"The horizon is pinned for {since}",
        text=f"By {holder_name(oldest)}: PostgreSQL cannot clean up behind it.",
        href="/system#horizon",
    )


def _leases(expired: dict[str, int]) -> Iterator[Finding]:
    for name, number in expired.items():
        if number > EXPIRED_LEASES:
            yield Finding(
                kind="leases",
                subject=name,
                impact=number,
                severity="note",
                title=f"Leases on {name} expire",
                text=f"At least {count(number)} leases expired in the last 15 minutes.",
                href=queue_path(name),
                queue=name,
            )


def _engine(snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.ring is not None and snapshot.ring.free == 0:
        yield Finding(
            kind="ring",
            subject="",
            severity="note",
            title="The ring has no free segment",
            text="The current segment grows instead of being replaced.",
            href="/system",
        )
    if snapshot.rescued:
        messages = "1 message" if snapshot.rescued == 1 else f"{count(snapshot.rescued)} messages"
        yield Finding(
            kind="rescan",
            subject="",
            severity="warning",
            impact=snapshot.rescued,
            title=f"A rescan found {messages} that claims had missed",
            text="They were delivered late in the last hour.",
            href="/system",
        )


def _lakes(snapshot: Snapshot) -> Iterator[Finding]:
    for lake in snapshot.lakes:
        if lake.gold_lag_seconds >= LAKE_SECONDS:
            yield Finding(
                kind="lake",
                subject=lake.name,
                severity="warning",
                title=f"Gold of lake {lake.name} is {duration(lake.gold_lag_seconds)} old",
                text=f"Bronze lags {duration(lake.bronze_lag_seconds)}, silver "
                f"{duration(lake.silver_lag_seconds)}. History is kept until it has landed.",
                href="/analytics",
            )


def holder_name(holder: HorizonHolder) -> str:
    """A description that identifies the session's owner."""
    words = [holder.kind]
    if holder.name:
        words.append(holder.name)
    if holder.pid:
        words.append(f"pid {holder.pid}")
    if holder.username:
        words.append(f"of user {holder.username}")
    if holder.application:
        words.append(f"in {holder.application}")
    return " ".join(words)
