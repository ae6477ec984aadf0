"""kill -9 of the server and of its clients, under load: what was acknowledged holds.

`PENSTOCK_CRASH_ROUNDS` says how many times the server is killed in the long form.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.db.migrations import Migrator

CLIENT = Path(__file__).with_name("crash_client.py")
CLIENTS = 3


class Crew:
    """The clients, and the journals in which they note what was acknowledged to them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.random = random.Random()
        self.running: list[subprocess.Popen[bytes]] = []
        self.started = 0

    def start(self, dsn: str) -> None:
        self.started += 1
        journal = str(self.place / f"journal-{self.started}")
        with (self.place / "errors").open("ab") as errors:
            program = [sys.executable, str(CLIENT), dsn, journal, str(self.random.random())[2:]]
            self.running.append(subprocess.Popen(program, stderr=errors))

    def kill_one(self) -> None:
        client = self.running.pop(self.random.randrange(len(self.running)))
        client.kill()
        client.wait()

    def end(self) -> None:
        while self.running:
            self.kill_one()

    def lines(self) -> list[list[str]]:
        texts = [journal.read_text() for journal in self.place.glob("journal-*")]
        # A line that a killed client did not end was never written in full.
        return [line.split() for text in texts for line in text.split("\n")[:-1]]

    def noted(self, what: str) -> set[int]:
        return {int(line[1]) for line in self.lines() if line[0] == what}

    def unclear(self) -> set[int]:
        """Their ack was sent, and its result is unknown."""
        return self.noted("t") - self.noted("a")

    def busy_for(self, wait_for: Any) -> None:
        """Waits for a random amount of work."""
        goal = len(self.lines()) + self.random.randint(20, 600)
        wait_for(lambda: len(self.lines()) >= goal, "the clients to do their work")


@pytest.fixture
def crew(tmp_path: Path) -> Any:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


def waiting(dsn: str) -> set[int]:
    with psycopg.connect(dsn) as connection:
        return {row[0] for row in connection.execute("select id from penstock.messages")}


def check(crew: Crew, dsn: str) -> tuple[set[int], set[int]]:
    """The lost messages and the redelivered ones, of all that were acknowledged so far."""
    found = waiting(dsn)
    lost = crew.noted("e") - crew.noted("t") - found
    return lost, crew.noted("a") & found


def crash(crew: Crew, durable: Any, wait_for: Any, rounds: int) -> None:
    server = durable()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        Migrator(connection).up()
        settings = '{"keep_history": 0, "max_attempts": 100}'
        connection.execute("select penstock.create_queue('work', %s)", [settings])
    lost: set[int] = set()
    came_back: set[int] = set()
    for _ in range(rounds):
        for _ in range(CLIENTS):
            crew.start(server.dsn)
        crew.busy_for(wait_for)
        crew.kill_one()
        crew.start(server.dsn)
        crew.busy_for(wait_for)
        os.kill(server.pid, signal.SIGKILL)
        again = durable()
        server.stop()
        server = again
        crew.end()
        gone, back = check(crew, server.dsn)
        lost |= gone
        came_back |= back
    print(
        f"{rounds} rounds, {len(crew.noted('e'))} messages, {len(crew.noted('a'))} acked: "
        f"{len(lost)} lost, {len(came_back)} came back"
    )
    assert (lost, came_back) == (set(), set())
    drain(crew, server.dsn, wait_for)
    server.stop()


def drain(crew: Crew, dsn: str, wait_for: Any) -> None:
    """Everything that is left is delivered, once, and nothing that was acked is among it."""
    left, acked, unclear = waiting(dsn), crew.noted("a"), crew.unclear()
    came: list[int] = []
    with psycopg.connect(dsn, autocommit=True) as connection:

        def empty() -> bool:
            query = "select id, token from penstock.claim('work', 1000)"
            leases = connection.execute(query).fetchall()
            if leases:
                # Together: each ack alone would wait for the disk.
                ids, tokens = (list(part) for part in zip(*leases, strict=True))
                query = "select penstock.ack_many(%s::bigint[], %s::bigint[])"
                acked_now = [row[0] for row in connection.execute(query, [ids, tokens])]
                assert sorted(acked_now) == sorted(ids)
                came.extend(ids)
            query = "select not exists (select from penstock.messages)"
            return bool(connection.execute(query).fetchone()[0])  # type: ignore[index]

        wait_for(empty, "all that is left is delivered")
    assert sorted(came) == sorted(left)
    assert not acked & set(came)
    assert crew.noted("e") - crew.noted("t") <= set(came)
    print(f"{len(came)} drained, {len(unclear)} acks without an answer")


@pytest.mark.timeout(300)
def test_what_was_acknowledged_outlives_killed_servers_and_clients(
    crew: Crew, durable: Any, wait_for: Any
) -> None:
    crash(crew, durable, wait_for, 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_what_was_acknowledged_outlives_many_crashes(
    crew: Crew, durable: Any, wait_for: Any
) -> None:
    crash(crew, durable, wait_for, int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "20")))


def test_a_transaction_that_was_prepared_before_a_crash_is_found(durable: Any) -> None:
    """A crash resets the floors and the generations; the transaction still holds its generation."""
    server = durable()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        Migrator(connection).up()
        connection.execute("select penstock.create_queue('work', '{\"keep_history\": 0}')")
        connection.execute("alter system set max_prepared_transactions = 5")
    server.stop()
    server = durable()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        pass_messages(connection)
        connection.execute("begin")
        late = connection.execute("select penstock.enqueue('work', '1')").fetchone()
        connection.execute("prepare transaction 'late'")
        pass_messages(connection)
    os.kill(server.pid, signal.SIGKILL)
    again = durable()
    server.stop()
    with psycopg.connect(again.dsn, autocommit=True) as connection:
        floor = connection.execute(
            "select pg_sequence_last_value(floors[1]) from penstock.queue"
        ).fetchone()
        assert floor == (None,), "a crash resets unlogged registers"
        pass_messages(connection)
        connection.execute("commit prepared 'late'")
        found = connection.execute("select id from penstock.claim('work', 10)").fetchall()
        assert found == [late]
        assert connection.execute("select penstock.rescans_that_found()").fetchone() == (0,)
    again.stop()


def pass_messages(connection: psycopg.Connection[Any]) -> None:
    """Messages come and go, and the floor follows them: a sweep moves on by 6 ms each time."""
    for turn in range(60):
        connection.execute("select penstock.enqueue('work', '1')")
        connection.execute("select penstock.ack(id, token) from penstock.claim('work', 100)")
        connection.execute(
            "select penstock._sweep(q, (date_part('epoch', clock_timestamp()) * 1e6)::bigint + %s)"
            " from penstock.queue q",
            [turn * 6000],
        )
