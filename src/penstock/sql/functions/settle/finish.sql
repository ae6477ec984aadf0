-- A message has reached its end: writes history if the queue keeps it, and deletes its body and its key.
-- Locks: none but the rows it deletes. Uses body_N_id and message_key_pkey.
create or replace function penstock._finish(m penstock.envelope, state text, reason text) returns void language plpgsql
  as $$
declare
  q penstock.queue;
begin
  select * into q from penstock.queue t where t.id = m.queue_id;
  if q.keep_history > 0 then
    if m.body_slot is not null then
      m.payload := penstock._body_json(m.body_slot, m.id);
      m.payload_bytes := penstock._body_bytes(m.body_slot, m.id);
    end if;
    insert into penstock.history_log (slot, id, queue, state, enqueued_at, first_claimed_at, last_claimed_at,
      finished_at, attempts, max_attempts, priority, payload_bytes_count, headers_bytes_count, worker, key, group_key,
      last_error, headers, payload, payload_bytes)
    values (pg_sequence_last_value('penstock.history_current'), m.id, q.name, state, m.enqueued_at, m.first_claimed_at,
      m.claimed_at, clock_timestamp(), m.attempt, m.max_attempts, m.priority,
      coalesce(octet_length(m.payload_bytes), octet_length(m.payload::text)),
      coalesce(octet_length(m.headers::text), 0), m.worker, m.key, m.group_key, coalesce(reason, m.last_error),
      m.headers, m.payload, m.payload_bytes);
  end if;
  if m.body_slot is not null then
    perform penstock._drop_body(m.body_slot, m.id);
  end if;
  if m.key is not null then
    perform penstock._forget_key(m.queue_id, m.key, m.id);
  end if;
end $$;
