create or replace view penstock.queues as
select name, lease_seconds, max_attempts::integer, backoff, dlq_enabled, message_ttl_seconds, max_depth, throughput_limit, max_in_flight,
       max_payload_bytes, keep_history, paused, created_at, updated_at
from penstock.queue;
