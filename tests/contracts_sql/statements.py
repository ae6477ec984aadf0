"""The statements of the mdb_queue contract, as its reference prints them."""

ENQUEUE = """
INSERT INTO mdb_queue.messages (queue_name, payload, max_attempts, visible_at)
SELECT q.name, $2, q.max_attempts, now() + ($3 * interval '1 second')
FROM mdb_queue.queues q WHERE q.name = $1
RETURNING id;
"""

CLAIM = """
-- Claim up to 10 messages with a 60-second visibility window.
-- Run in autocommit, not inside a long-running transaction.
UPDATE mdb_queue.messages m
SET visible_at = now() + (60 * interval '1 second'),
attempt_count = m.attempt_count + 1,
claimed_by = 'worker-1'
WHERE m.id IN (
SELECT id FROM mdb_queue.messages
WHERE queue_name = 'order-events'
AND visible_at <= now()
AND attempt_count < max_attempts
ORDER BY id
FOR UPDATE SKIP LOCKED
LIMIT 10
)
RETURNING m.id, m.payload, m.attempt_count, m.enqueued_at;
"""

ACK = """
-- Ack: delete the message once processing succeeds.
-- Token-gated: an expired claim that was re-claimed by another consumer sees zero rows.
DELETE FROM mdb_queue.messages WHERE id = $1 AND claimed_by = $2;
"""

NACK = """
-- Nack: reschedule the message for redelivery after a backoff, with an error note.
UPDATE mdb_queue.messages
SET visible_at = now() + ($3 * interval '1 second'),
last_error = $4
WHERE id = $1 AND claimed_by = $2;
"""

EXTEND = """
-- If processing takes longer than expected, extend the claim to prevent redelivery.
UPDATE mdb_queue.messages
SET visible_at = now() + ($3 * interval '1 second')
WHERE id = $1 AND claimed_by = $2;
"""


def claim_by(worker: str, limit: int | str = 10, queue: str = "order-events") -> str:
    """The same claim for another worker, queue, or number of messages."""
    return (
        CLAIM.replace("worker-1", worker)
        .replace("LIMIT 10", f"LIMIT {limit}")
        .replace("order-events", queue)
    )
