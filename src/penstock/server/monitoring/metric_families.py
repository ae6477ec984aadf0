"""The metrics of the database as Prometheus families: names, help texts and labels. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.commands.read.analytics import LakeGlance
from penstock.model.monitoring import (
    QUANTILES,
    Heartbeat,
    HorizonHolder,
    Latencies,
    QueueCounter,
    RingSegments,
)
from penstock.model.queue import Queue, QueueStats
from penstock.model.schedule import Schedule

WAITING_STATES: Final = ("ready", "scheduled", "leased", "dead")
FINAL_STATES: Final = ("done", "dead", "expired", "cancelled", "superseded")
# Counters of a queue, other than the final states: name, help text, event.
EVENTS: Final = (
    ("failed_attempts", "Attempts that failed.", "failed_attempt"),
    ("expired_leases", "Leases that expired before the message was settled.", "expired_lease"),
    ("dead_letters", "Messages that became dead letters.", "dead_letter"),
)


def database_up(up: bool) -> Metric:
    return GaugeMetricFamily("penstock_database_up", "1 while the database answers.", int(up))


def reading_age(age: timedelta) -> Metric:
    return GaugeMetricFamily(
        "penstock_reading_age_seconds",
        "Age of the values that were read from the database.",
        age.total_seconds(),
    )


def engine(ids: int, rescans: int, ring: RingSegments) -> Iterator[Metric]:
    yield CounterMetricFamily("penstock_enqueued", "Message ids assigned, in all queues.", ids)
    yield CounterMetricFamily(
        "penstock_rescans_that_found",
        "Messages that only a rescan has found.",
        rescans,
    )
    segments = GaugeMetricFamily(
        "penstock_ring_segments", "Segments of the ring in each state.", labels=["state"]
    )
    segments.add_metric(["current"], ring.current)
    segments.add_metric(["in_use"], ring.in_use)
    segments.add_metric(["closing"], ring.closing)
    segments.add_metric(["free"], ring.free)
    yield segments
    yield GaugeMetricFamily(
        "penstock_ring_overflow",
        "1 while the overflow segment holds ready messages.",
        int(ring.overflow_in_use),
    )


def depths(stats: Sequence[QueueStats]) -> Iterator[Metric]:
    messages = GaugeMetricFamily(
        "penstock_queue_messages", "Messages in each state, exact.", labels=["queue", "state"]
    )
    oldest = GaugeMetricFamily(
        "penstock_queue_oldest_ready_seconds", "Age of the oldest ready message.", labels=["queue"]
    )
    for each in stats:
        for state in WAITING_STATES:
            messages.add_metric([each.queue, state], getattr(each, state))
        oldest.add_metric([each.queue], each.oldest_ready_seconds or 0)
    yield messages
    yield oldest


def settings(queues: Sequence[Queue]) -> Iterator[Metric]:
    paused = GaugeMetricFamily(
        "penstock_queue_paused", "1 while the queue is paused.", labels=["queue"]
    )
    limit = GaugeMetricFamily(
        "penstock_queue_max_depth", "The limit of unfinished messages, if any.", labels=["queue"]
    )
    for queue in queues:
        paused.add_metric([queue.name], int(queue.settings.paused))
        if queue.settings.max_depth is not None:
            limit.add_metric([queue.name], queue.settings.max_depth)
    yield paused
    yield limit


def finished(queues: Sequence[Queue], counters: Sequence[QueueCounter]) -> Iterator[Metric]:
    """Counters of the queues that keep history.

    Every counter starts at 0, so that a rate includes the first event. A queue without history has
    none: a constant 0 would mean that nothing ends.
    """
    names = [queue.name for queue in queues if queue.settings.keep_history > 0]
    counts = {(each.queue, each.event): each.count for each in counters}
    ended = CounterMetricFamily(
        "penstock_queue_finished",
        "Messages that ended, by the state they reached.",
        labels=["queue", "state"],
    )
    for queue in names:
        for state in FINAL_STATES:
            ended.add_metric([queue, state], counts.get((queue, state), 0))
    yield ended
    for name, text, event in EVENTS:
        family = CounterMetricFamily(f"penstock_queue_{name}", text, labels=["queue"])
        for queue in names:
            family.add_metric([queue], counts.get((queue, event), 0))
        yield family


def times(found: Sequence[Latencies]) -> Iterator[Metric]:
    wait = GaugeMetricFamily(
        "penstock_queue_wait_seconds",
        "Time from enqueue to first claim, including a delay, of messages that finished recently.",
        labels=["queue", "quantile"],
    )
    work = GaugeMetricFamily(
        "penstock_queue_work_seconds",
        "Time from the last claim to the end, of messages that finished recently.",
        labels=["queue", "quantile"],
    )
    for each in found:
        for number, quantile in enumerate(QUANTILES):
            wait.add_metric([each.queue, str(quantile)], each.waited[number])
            work.add_metric([each.queue, str(quantile)], each.worked[number])
    yield wait
    yield work


def workers(heartbeats: Sequence[Heartbeat], queues: Sequence[str]) -> Iterator[Metric]:
    states = Counter(_worker_state(each) for each in heartbeats)
    processes = GaugeMetricFamily(
        "penstock_workers", "Worker processes seen within a day, by state.", labels=["state"]
    )
    for state in sorted({"running", "draining", "silent"} | states.keys()):
        processes.add_metric([state], states[state])
    serving = Counter(
        queue for each in heartbeats if _worker_state(each) == "running" for queue in each.queues
    )
    attended = GaugeMetricFamily(
        "penstock_queue_workers", "Running workers of the queue.", labels=["queue"]
    )
    for queue in queues:
        attended.add_metric([queue], serving[queue])
    yield processes
    yield attended


def _worker_state(heartbeat: Heartbeat) -> str:
    return heartbeat.state if heartbeat.alive else "silent"


def schedules(found: Sequence[Schedule], now: datetime) -> Iterator[Metric]:
    late = GaugeMetricFamily(
        "penstock_schedule_late_seconds",
        "How long the next fire has been due; 0 if it is not due.",
        labels=["schedule", "queue"],
    )
    failing = GaugeMetricFamily(
        "penstock_schedule_failing",
        "1 if the fire that is due could not be enqueued.",
        labels=["schedule", "queue"],
    )
    for each in found:
        due = each.next_fire_at or now
        late.add_metric([each.name, each.queue], max((now - due).total_seconds(), 0))
        failing.add_metric([each.name, each.queue], int(each.last_error is not None))
    yield late
    yield failing


def horizon(holders: Sequence[HorizonHolder]) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "penstock_horizon_age_seconds",
        "Age of the oldest transaction that keeps PostgreSQL from removing old rows.",
        max((each.age_seconds or 0 for each in holders), default=0),
    )
    yield GaugeMetricFamily(
        "penstock_horizon_age_transactions",
        "The same in transactions, which also covers replication slots and standbys.",
        max((each.xids for each in holders), default=0),
    )


def lakes(found: Sequence[LakeGlance], now: datetime) -> Iterator[Metric]:
    """Nothing if no lake is registered."""
    if not found:
        return
    rows = GaugeMetricFamily(
        "penstock_lake_lag_rows", "Rows of history not landed yet, up to 10,000.", labels=["lake"]
    )
    lag = GaugeMetricFamily(
        "penstock_lake_lag_seconds",
        "Age of the newest data in a layer, 0 if it holds all that has finished.",
        labels=["lake", "layer"],
    )
    age = GaugeMetricFamily(
        "penstock_lake_age_seconds", "Time since the last rows landed in the lake.", labels=["lake"]
    )
    for lake in found:
        rows.add_metric([lake.name], lake.lag_rows)
        lag.add_metric([lake.name, "bronze"], lake.bronze_lag_seconds)
        lag.add_metric([lake.name, "silver"], lake.silver_lag_seconds)
        lag.add_metric([lake.name, "gold"], lake.gold_lag_seconds)
        if lake.landed_at is not None:
            age.add_metric([lake.name], (now - lake.landed_at).total_seconds())
    yield rows
    yield lag
    yield age
