"""One client: the same loop for both systems, in a separate process."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection

from penstock_benchmarks import wire
from penstock_benchmarks.session import Session

PAYLOAD_BYTES = 200


class Kind(StrEnum):
    CYCLE = "cycle"
    CYCLE_BY_ONE = "cycle_by_one"
    ENQUEUE = "enqueue"
    CONTROL = "control"


@dataclass(frozen=True)
class Work:
    """What the clients do in one window."""

    system: StrEnum
    queue: str
    kind: Kind
    batch: int
    synchronous_commit: bool = False


@dataclass(frozen=True)
class Span:
    """When a window runs, on the clock that all processes of the machine share."""

    start: float
    count_from: float
    stop: float


@dataclass
class OperationCounts:
    """What one client did between count_from and stop."""

    messages: int = 0
    calls: int = 0
    short_claims: int = 0
    step_seconds: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])


Step = Callable[[], object]


def client_main(pipe: Connection, dsn: str, sessions_for: Mapping[StrEnum, str]) -> None:
    """Serve windows until the pipe closes; `sessions_for` has a worker's name for each system."""
    try:
        sessions = {system: Session(dsn, system, name) for system, name in sessions_for.items()}
        pipe.send(None)
        while True:
            work: Work | None = pipe.recv()
            if work is None:
                return
            _serve(pipe, sessions[work.system], work)
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        pipe.send(error)


def _serve(pipe: Connection, session: Session, work: Work) -> None:
    session.synchronous_commit(work.synchronous_commit)
    payloads = [wire.json_payload(PAYLOAD_BYTES, number) for number in range(work.batch)]
    if work.kind is Kind.CYCLE_BY_ONE:
        enqueue = one_by_one([enqueue_step(session, work.queue, [each]) for each in payloads])
    else:
        enqueue = enqueue_step(session, work.queue, payloads)
    pipe.send(None)
    span: Span = pipe.recv()
    time.sleep(max(0.0, span.start - time.monotonic()))
    if work.kind in (Kind.CYCLE, Kind.CYCLE_BY_ONE):
        pipe.send(cycles(session, work, enqueue, span))
    else:
        pipe.send(repeats(enqueue if work.kind is Kind.ENQUEUE else session.control, work, span))


def enqueue_step(session: Session, queue: str, payloads: list[bytes]) -> Step:
    """A call that enqueues these JSON texts, all at once, with nothing left to prepare."""
    name, bodies = queue.encode(), [wire.jsonb(payload) for payload in payloads]
    if len(bodies) == 1:
        return lambda: session.enqueue(name, bodies[0])
    whole = wire.array(wire.JSONB_OID, bodies)
    return lambda: session.enqueue_many(name, whole)


def one_by_one(steps: list[Step]) -> Step:
    def step() -> None:
        for each in steps:
            each()

    return step


def cycles(session: Session, work: Work, enqueue: Step, span: Span) -> OperationCounts:
    """Enqueue n, claim n, ack n, each its own commit; or enqueue and ack one by one.

    What counts is what was settled: a claim may come back short when another client was
    quicker, and then so is the count.
    """
    queue, count, clock = work.queue.encode(), wire.int4(work.batch), time.monotonic
    ack = session.ack_by_one if work.kind is Kind.CYCLE_BY_ONE else session.ack
    tally = OperationCounts()
    begun = clock()
    while begun < span.stop:
        enqueue()
        enqueued = clock()
        claimed = session.claim(queue, count)
        received = clock()
        settled = ack(claimed)
        ended = clock()
        # A cycle belongs to the window that it ends in, so both edges lose and win alike.
        if span.count_from <= ended < span.stop:
            tally.messages += settled
            tally.calls += 1
            tally.short_claims += settled < work.batch
            tally.step_seconds[0] += enqueued - begun
            tally.step_seconds[1] += received - enqueued
            tally.step_seconds[2] += ended - received
        begun = ended
    return tally


def repeats(step: Step, work: Work, span: Span) -> OperationCounts:
    """One call again and again."""
    clock, tally = time.monotonic, OperationCounts()
    begun = clock()
    while begun < span.stop:
        step()
        ended = clock()
        if span.count_from <= ended < span.stop:
            tally.messages += work.batch
            tally.calls += 1
            tally.step_seconds[0] += ended - begun
        begun = ended
    return tally
