-- The finished messages, with the columns of a page.
select 1 as turn, id, queue, state, payload::text as payload, payload_bytes, headers::text as headers, key, priority,
       group_key, attempts, max_attempts, enqueued_at, null::timestamptz as visible_at, null::timestamptz as expires_at,
       first_claimed_at, last_claimed_at, null::timestamptz as lease_until, finished_at,
       case when state = 'dead' then finished_at end as dead_at, worker, last_error, null::text as original_queue
  from penstock.history
