-- Waiting, leased and dead messages, in the order of their ids. A filter that is NULL matches all messages. Internal
-- queues are left out, unless the filter names one. The dead letters of a queue are found under its name and under
-- <queue>.dlq. No locks.
select 0 as turn, id, queue, state, payload::text, payload_bytes, headers::text, key, priority, group_key,
       attempt, max_attempts, enqueued_at, visible_at, expires_at, first_claimed_at, claimed_at, lease_until,
       null::timestamptz as finished_at, dead_at, worker, last_error, original_queue
  from penstock.messages
 where (%(queue)s::text is null and not starts_with(queue, 'penstock.') or queue = %(queue)s::text
   or original_queue = %(queue)s::text)
   and (%(state)s::text is null or state = %(state)s::text)
   and (%(key)s::text is null or key = %(key)s::text)
   and (%(error_like)s::text is null or last_error like %(error_like)s::text)
   and (%(after)s::bigint is null or id > %(after)s::bigint)
 order by id
 limit %(limit)s::integer
