-- The queues with their settings. Only admins see internal queues. Uses queue_name_key.
create or replace view penstock.queues with (security_barrier) as
select name, lease_seconds, max_attempts::integer, backoff, dlq_enabled, message_ttl_seconds, max_depth,
       throughput_limit, max_in_flight, max_payload_bytes, keep_history, paused, created_at, updated_at
from penstock.queue where not name ^@ 'penstock.' or penstock._is_admin();
