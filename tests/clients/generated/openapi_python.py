"""The scenario with the client that openapi-python-client generates, in its own environment."""

import sys
from typing import TypeVar

from penstock_client import AuthenticatedClient
from penstock_client.api.messages import (
    ack_message,
    dequeue_messages,
    enqueue_messages,
    extend_message,
    nack_message,
    settle_messages,
)
from penstock_client.api.topics import create_topic, redrive_topic, show_stats
from penstock_client.models import (
    Dequeue,
    Enqueued,
    EnqueueJson,
    Extend,
    Held,
    Message,
    Nack,
    NewTopic,
    Problem,
    Settlement,
    SettlementAction,
    Settlements,
)

T = TypeVar("T")


def ok(answer: T | Problem | None) -> T:
    """A response that is not a problem document."""
    assert answer is not None
    assert not isinstance(answer, Problem), answer
    return answer


class Scenario:
    def __init__(self, client: AuthenticatedClient, topic: str) -> None:
        self.client = client
        self.topic = topic

    def dequeue(self, seconds: int) -> Message:
        body = Dequeue(topic=self.topic, wait_seconds=seconds)
        [message] = ok(dequeue_messages.sync(client=self.client, body=body)).messages
        return message

    def enqueue(self) -> str:
        body = EnqueueJson(topic=self.topic, json={"order": 1001})
        key = f"{self.topic}-1"
        made = enqueue_messages.sync(client=self.client, body=body, idempotency_key=key)
        assert isinstance(made, Enqueued), made
        return made.id

    def settle(self, message: Message, action: SettlementAction) -> str | None:
        wanted = Settlement(id=message.id, lease_token=str(message.lease_token), action=action)
        body = Settlements(messages=[wanted])
        [result] = ok(settle_messages.sync(client=self.client, body=body)).results
        assert result.settled
        return result.state or None

    def run(self) -> None:
        client, topic = self.client, self.topic
        ok(create_topic.sync(client=client, body=NewTopic(topic=topic, max_retries=1)))
        id = self.enqueue()
        assert self.enqueue() == id
        message = self.dequeue(20)
        token = str(message.lease_token)
        assert (message.id, message.json, message.attempt) == (id, {"order": 1001}, 1)
        extend = Extend(lease_token=token, visibility_timeout_seconds=600)
        longer = ok(extend_message.sync(id, client=client, body=extend)).visibility_timeout
        assert message.visibility_timeout is not None
        assert longer > message.visibility_timeout
        nack = Nack(lease_token=token, error="no route", delay_seconds=0)
        assert ok(nack_message.sync(id, client=client, body=nack)).state == "ready"
        again = self.dequeue(5)
        assert (again.id, again.attempt, again.last_error) == (id, 2, "no route")
        assert self.settle(again, SettlementAction.NACK) == "dead"
        assert ok(show_stats.sync(client=client, topic=topic)).items[0].dead == 1
        assert ok(redrive_topic.sync(topic, client=client)).count == 1
        last = self.dequeue(5)
        held = Held(lease_token=str(last.lease_token))
        assert ok(ack_message.sync(id, client=client, body=held)).state == "done"
        refused = ack_message.sync(id, client=client, body=held)
        assert isinstance(refused, Problem)
        assert refused.code == "LeaseLostError"


url, key, topic = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=key) as client:
    Scenario(client, topic).run()
print("passed")
