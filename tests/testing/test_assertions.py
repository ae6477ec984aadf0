"""`assert_enqueued`: the expected messages wait, and a failure lists the messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import AsyncClient, Client
from penstock.testing import assert_enqueued, assert_enqueued_async


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with Client(dsn) as client:
        client.create_queue("emails")
        client.enqueue("emails", {"to": "ada", "n": 1}, key="k", headers={"tenant": "a", "x": 1})
        client.enqueue("emails", {"to": "bob", "n": 2}, priority=5, group="g")
        client.enqueue("emails", None, delay=60)
        yield client


def test_what_is_there_comes_back(client: Client) -> None:
    assert len(assert_enqueued(client, "emails", count=3)) == 3
    [message] = assert_enqueued(client, "emails", {"to": "ada", "n": 1})
    assert message.key == "k"
    [message] = assert_enqueued(client, "emails", includes={"to": "bob"}, priority=5, group="g")
    assert message.payload["n"] == 2
    assert_enqueued(client, "emails", headers={"tenant": "a"}, key="k", count=1)
    assert_enqueued(client, "emails", None, state="scheduled", count=1)
    assert_enqueued(client, "emails", where=lambda message: message.priority > 4, count=1)
    assert_enqueued(client, "emails", {"to": "eve"}, count=0)


@pytest.mark.parametrize(
    "wanted",
    [
        {"payload": {"to": "ada"}},
        {"includes": {"to": "eve"}},
        {"includes": {"cc": None}},
        {"count": 2},
        {"key": "other"},
        {"headers": {"tenant": "b"}},
        {"where": lambda message: False},
        {"payload": {"to": "ada", "n": 1}, "count": 2},
        {"payload": {"to": "ada", "n": 1}, "count": 0},
    ],
)
def test_what_is_not_there_fails_and_says_what_is(client: Client, wanted: dict) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(client, "emails", **wanted)
    assert "{'to': 'bob', 'n': 2}" in str(caught.value).replace('"', "'") or "bob" in str(
        caught.value
    )
    assert "emails" in str(caught.value)


def test_an_empty_queue_is_called_empty(client: Client) -> None:
    client.purge("emails")
    with pytest.raises(AssertionError, match="it is empty"):
        assert_enqueued(client, "emails")


def test_a_slip_is_no_assertion_that_holds(client: Client) -> None:
    with pytest.raises(TypeError, match="priorty"):
        assert_enqueued(client, "emails", count=0, priorty=5)
    assert_enqueued(client, "emials", count=0)


async def test_the_same_with_an_async_client(client: Client, dsn: str) -> None:
    async with AsyncClient(dsn) as other:
        [message] = await assert_enqueued_async(other, "emails", includes={"to": "ada"})
        assert message.payload == {"to": "ada", "n": 1}
        with pytest.raises(AssertionError, match="eve"):
            await assert_enqueued_async(other, "emails", includes={"to": "eve"})
