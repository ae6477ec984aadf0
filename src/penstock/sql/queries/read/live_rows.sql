-- The unfinished messages, with the columns of a page.
select 0 as turn, id, queue, state, payload::text as payload, payload_bytes, headers::text as headers, key, priority,
       group_key, attempt, max_attempts, enqueued_at, visible_at, expires_at, first_claimed_at, claimed_at, lease_until,
       null::timestamptz as finished_at, dead_at, worker, last_error, original_queue
  from penstock.messages
