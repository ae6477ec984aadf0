"""Each way to claim returns, by its first call after it, all messages of a long transaction.

Other messages come and go while the transaction is open, so the floors pass the positions that it
has taken. The safety net must have found nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from .test_commit import Sweeper, pass_by

CONSUMERS = count(1)

Way = Callable[[Any, Callable[..., Any]], list[int]]
Act = Callable[[Any, Any], int]


def found(caller: Any, query: str, *arguments: Any, **options: Any) -> list[int]:
    rows = caller.connection.execute(query, arguments, **options).fetchall()
    return [row[0] for row in rows]


def claim_in_a_block(engine: Any, caller: Callable[..., Any]) -> list[int]:
    block = caller(autocommit=False)
    block.value("select 1")
    ids = [id for id, _ in block.claim("work", 10)]
    block.connection.commit()
    return ids


def claim_alone(engine: Any, caller: Callable[..., Any]) -> list[int]:
    client = caller()
    client.value("select set_config('penstock.alone', 'on', false)")
    return [id for id, _ in client.claim("work", 10)]


def claim_prepared(engine: Any, caller: Callable[..., Any]) -> list[int]:
    return found(engine, "select id from penstock.claim('work', 10)", prepare=True)


def claim_over_http(engine: Any, caller: Callable[..., Any]) -> list[int]:
    return found(
        engine, "select id from penstock.claim_within('work', 10, null, 'http', 100000000)"
    )


def claim_by_spark(engine: Any, caller: Callable[..., Any]) -> list[int]:
    consumer = f"etl-{next(CONSUMERS)}"
    generation = engine.value("select generation from penstock.spark_attach(%s)", consumer)
    engine.value(
        "select penstock.spark_plan(%s, %s, 1, array['work'], array[10])", consumer, generation
    )
    query = "select id from penstock.spark_claim(%s, %s, 1, 0)"
    return found(engine, query, consumer, generation)


WAYS: dict[str, Way] = {
    "claim of one": lambda engine, _: [id for id, _ in engine.claim("work")],
    "claim of many": lambda engine, _: [id for id, _ in engine.claim("work", 100)],
    "claim of a prepared statement": claim_prepared,
    "claim in a block": claim_in_a_block,
    "claim of the clients and the worker": claim_alone,
    "claim of the HTTP server": claim_over_http,
    # pgmq.read and the statements of mdb_queue call it.
    "claim by id": lambda engine, _: found(
        engine, "select id from penstock._claim_by_id('work', 10)"
    ),
    "claim of Spark": claim_by_spark,
}


def leased(engine: Any) -> tuple[int, int]:
    engine.enqueue("work")
    [lease] = engine.claim("work")
    return (lease[0], lease[1])


def nack(engine: Any, block: Any) -> int:
    id, token = leased(engine)
    block.value("select penstock.nack(%s, %s, delay => interval '0')", id, token)
    return id


def snooze(engine: Any, block: Any) -> int:
    id, token = leased(engine)
    block.value("select penstock.snooze(%s, %s)", id, token)
    return id


def redrive(engine: Any, block: Any) -> int:
    id, token = leased(engine)
    engine.value("select penstock.reject(%s, %s)", id, token)
    block.value("select penstock.redrive('work') is not null")
    return id


def move(engine: Any, block: Any) -> int:
    id: int = engine.enqueue("elsewhere")
    block.value("select penstock.move(array[%s]::bigint[], 'work')", id)
    return id


def clear_its_segment(engine: Any, block: Any) -> int:
    id: int = engine.enqueue("work")
    segment = int(engine.ring()[1][-1])
    engine.tend()  # a free segment for the next one
    engine.rotate()
    block.value("select penstock._clear_oldest(%s) is not null", segment)
    return id


def roll_back_to_a_savepoint(engine: Any, block: Any) -> int:
    block.connection.execute("savepoint one")
    block.enqueue("work")
    block.connection.execute("rollback to savepoint one")
    id: int = block.enqueue("work")
    return id


ACTS: dict[str, Act] = {
    "enqueue": lambda _, block: block.enqueue("work"),
    "enqueue many": lambda _, block: block.enqueue_many("work", 3)[0],
    "enqueue with a key": lambda _, block: block.enqueue("work", key="k"),
    "enqueue with a priority": lambda _, block: block.enqueue("work", priority=7),
    "enqueue into a group": lambda _, block: block.enqueue("work", group_key="g"),
    "enqueue a large payload": lambda _, block: block.enqueue("work", f'"{"x" * 5000}"'),
    "enqueue after a savepoint": roll_back_to_a_savepoint,
    "nack": nack,
    "snooze": snooze,
    "redrive": redrive,
    "move": move,
    "clear its segment": clear_its_segment,
}


@pytest.fixture
def sweeper(engine: Any) -> Iterator[Sweeper]:
    for queue in ("work", "elsewhere"):
        engine.create(queue)
    yield Sweeper(engine, "work")
    assert engine.value("select penstock.rescans_that_found()") == 0


@pytest.fixture
def check(
    engine: Any, other: Any, caller: Callable[..., Any], sweeper: Sweeper
) -> Callable[[str, str], None]:
    """The act in a long transaction, then the way to claim."""

    def run(act: str, way: str) -> None:
        late = ACTS[act](engine, other)
        pass_by(engine, sweeper, 5)
        # Others see a message until the transaction that moves it commits.
        assert engine.floor("work") > late or act == "clear its segment"
        other.connection.commit()
        assert late in WAYS[way](engine, caller), f"{act}, {way}"
        engine.value("select penstock.purge('work', include_leased => true)")

    return run


@pytest.mark.parametrize("act", ACTS)
def test_the_first_claim_after_the_commit_hands_the_message_out(
    check: Callable[[str, str], None], act: str
) -> None:
    check(act, "claim of one")


def test_every_way_to_claim_does(check: Callable[[str, str], None]) -> None:
    for way in WAYS:
        check("enqueue", way)


@pytest.mark.slow
@pytest.mark.parametrize("act", ACTS)
def test_every_way_to_claim_hands_out_whatever_was_done(
    check: Callable[[str, str], None], act: str
) -> None:
    for way in WAYS:
        check(act, way)
