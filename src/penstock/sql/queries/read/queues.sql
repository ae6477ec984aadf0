-- The queues with their settings, or the one that is named. No locks; uses the index on the name.
select name, lease_seconds, max_attempts, backoff::text, dlq_enabled, message_ttl_seconds, max_depth,
       throughput_limit, max_in_flight, max_payload_bytes, keep_history, paused, created_at, updated_at
  from penstock.queues
 where %(name)s::text is null or name = %(name)s::text
 order by name
