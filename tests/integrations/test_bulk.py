"""100,000 messages in one call, in one transaction, without holding them all."""

import tracemalloc

import pytest

from penstock import AsyncClient

COUNT = 100_000
MEBIBYTE = 1024 * 1024


def messages():
    for n in range(COUNT):
        yield {"n": n, "text": "x" * 100}


@pytest.fixture
def ready(connect):
    """Counts, where `stats` would estimate."""
    return lambda: connect().execute("select count(*) from penstock.messages").fetchone()[0]


@pytest.fixture
def memory():
    """The most memory that Python held at once since the test began, in bytes."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def test_a_hundred_thousand_messages_take_the_memory_of_a_chunk(queue, ready, memory):
    done = queue.enqueue_many("orders", messages())
    assert memory() < 10 * MEBIBYTE  # all of them at once would be over 100
    assert done.count == COUNT
    assert ready() == COUNT
    first = queue.claim("orders", 3)
    assert [lease.payload["n"] for lease in first] == [0, 1, 2]
    assert first[0].id == done.first_id


@pytest.mark.slow
async def test_an_async_stream_of_a_hundred_thousand_as_well(queue, ready, dsn, memory):
    async def stream():
        for message in messages():
            yield message

    async with AsyncClient(dsn) as client:
        done = await client.enqueue_many("orders", stream())
    assert memory() < 10 * MEBIBYTE
    assert done.count == COUNT
    assert ready() == COUNT


def test_large_payloads_take_no_more_memory_than_small_ones(queue, ready, memory):
    queue.enqueue_many("orders", ("x" * 200_000 for _ in range(300)))
    assert memory() < 30 * MEBIBYTE  # all of them at once would be 60, and as much again encoded
    assert ready() == 300


def test_the_last_of_a_hundred_thousand_can_still_undo_them_all(queue, ready):
    def broken():
        yield from range(COUNT)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        queue.enqueue_many("orders", broken())
    assert ready() == 0
