-- Finished messages, in the order of their ids. A filter that is NULL matches all messages. Internal queues are left
-- out, unless the filter names one. No locks.
select 1 as turn, id, queue, state, payload::text, payload_bytes, headers::text, key, priority, group_key,
       attempts, max_attempts, enqueued_at, null::timestamptz as visible_at,
       null::timestamptz as expires_at, first_claimed_at, last_claimed_at, null::timestamptz as lease_until,
       finished_at, case when state = 'dead' then finished_at end as dead_at, worker, last_error,
       null::text as original_queue
  from penstock.history
 where (%(queue)s::text is null and not starts_with(queue, 'penstock.') or queue = %(queue)s::text)
   and (%(state)s::text is null or state = %(state)s::text)
   and (%(key)s::text is null or key = %(key)s::text)
   and (%(error_like)s::text is null or last_error like %(error_like)s::text)
   and (%(after)s::bigint is null or id > %(after)s::bigint)
 order by id, finished_at
 limit %(limit)s::integer
