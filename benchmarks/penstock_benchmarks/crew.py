"""The client processes, and the windows they run in."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from penstock_benchmarks.driver import OperationCounts, Span, Work, client_main
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.session import System

# Long enough for every client to be awake and waiting before the first one starts.
_HEAD_START_SECONDS = 0.02
# The first part of a window is not counted: the caches still hold the other system.
_RAMP = 0.1


@dataclass(frozen=True)
class Window:
    """What all clients together did in one stretch of time."""

    work: Work
    seconds: float
    messages: int
    calls: int
    short_claims: int
    step_milliseconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    def as_json(self) -> dict[str, Any]:
        return {
            "system": self.work.system,
            "kind": self.work.kind,
            "batch": self.work.batch,
            "synchronous_commit": self.work.synchronous_commit,
            "queue": self.work.queue,
            "seconds": round(self.seconds, 4),
            "messages": self.messages,
            "rate": round(self.rate, 1),
            "calls": self.calls,
            "short_claims": self.short_claims,
            "step_milliseconds": self.step_milliseconds,
        }


class Crew:
    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes
        self._answers()

    def run(self, work: Work, seconds: float) -> Window:
        self._tell(work)
        self._answers()
        start = time.monotonic() + _HEAD_START_SECONDS
        span = Span(start, start + seconds * _RAMP, start + seconds * (1 + _RAMP))
        self._tell(span)
        return _add_up(work, seconds, self._answers())

    def _tell(self, what: object) -> None:
        for pipe in self._pipes:
            pipe.send(what)

    def _answers(self) -> list[Any]:
        answers = []
        for pipe in self._pipes:
            try:
                answers.append(pipe.recv())
            except EOFError:
                raise BenchError("a client process ended unexpectedly") from None
        for answer in answers:
            if isinstance(answer, Exception):
                raise BenchError(str(answer)) from answer
        return answers


@contextmanager
def crew(
    dsn: str, clients: int, sessions_for: Mapping[StrEnum, str] | None = None
) -> Iterator[Crew]:
    """`clients` processes, connected to both systems, for as long as the block lasts.

    Or to others: `sessions_for` has the arguments of their acks in addition to the ids.
    """
    # spawn: forking a process that holds connections and progress threads is not safe.
    context = get_context("spawn")
    pipes, processes = [], []
    try:
        for number in range(clients):
            ours, theirs = context.Pipe()
            names = sessions_for or dict.fromkeys(System, f"bench-{number}")
            process = context.Process(target=client_main, args=(theirs, dsn, names), daemon=True)
            with interrupts_held():
                process.start()
            # Ours alone, so that a client that dies is an end of file and not an endless wait.
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        yield Crew(pipes)
    except BaseException:
        # In the middle of a turn a client does not look at its pipe for a minute.
        for process in processes:
            process.terminate()
        raise
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
                process.join()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Clients inherit this: Ctrl-C goes to the whole group, and is the parent's to handle.

    One that comes meanwhile is not lost: the parent has it at the end of the block.
    """
    resource_tracker.ensure_running()  # as it starts it lets them through again
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _add_up(work: Work, seconds: float, tallies: list[OperationCounts]) -> Window:
    calls = sum(tally.calls for tally in tallies)
    sums = [sum(parts) for parts in zip(*(tally.step_seconds for tally in tallies), strict=True)]
    return Window(
        work=work,
        seconds=seconds,
        messages=sum(tally.messages for tally in tallies),
        calls=calls,
        short_claims=sum(tally.short_claims for tally in tallies),
        step_milliseconds=tuple(round(total * 1000 / max(calls, 1), 4) for total in sums),
    )
