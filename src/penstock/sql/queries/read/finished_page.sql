-- A page of finished messages by id, for the data plane; a filter that is NULL lets all through. A page has
-- about max_bytes of payloads, headers and errors, and one message at least. The last column is the number of
-- messages that were found, with those that did not fit. No locks.
select * from (
select page.*, sum(coalesce(octet_length(payload), octet_length(payload_bytes) * 4 / 3)
                   + coalesce(octet_length(headers), 0) + coalesce(octet_length(last_error), 0))
                 over (order by id rows between unbounded preceding and 1 preceding) as bytes_before,
       count(*) over () as found
  from (
select 1 as turn, id, queue, state, payload::text as payload, payload_bytes, headers::text as headers, key, priority, group_key,
       attempts, max_attempts, enqueued_at, null::timestamptz as visible_at, null::timestamptz as expires_at,
       first_claimed_at, last_claimed_at, null::timestamptz as lease_until, finished_at,
       case when state = 'dead' then finished_at end as dead_at, worker, last_error, null::text as original_queue
  from penstock.history
 where (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
   and (%(internal)s::boolean or not starts_with(queue, 'penstock.'))
   and (%(states)s::text[] is null or state = any (%(states)s::text[]))
   and (%(key)s::text is null or key = %(key)s::text)
   and (%(error)s::text is null or strpos(last_error, %(error)s::text) > 0)
   and (%(enqueued_before)s::timestamptz is null or enqueued_at < %(enqueued_before)s::timestamptz)
   and (%(enqueued_after)s::timestamptz is null or enqueued_at >= %(enqueued_after)s::timestamptz)
   and (%(after)s::bigint is null or id > %(after)s::bigint)
 order by id
 limit %(limit)s::integer
) page) pages
 where coalesce(bytes_before, 0) < %(max_bytes)s::bigint
 order by id
