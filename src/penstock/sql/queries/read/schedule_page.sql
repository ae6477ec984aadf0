-- A page of the schedules by name. A filter that is NULL lets all schedules through. A page has about max_bytes of
-- payloads, headers and errors, and one schedule at least. The last column is the number of schedules that were found,
-- including those that did not fit. No locks; uses the index on the name.
select * from (
select page.*, sum(coalesce(octet_length(payload), 0) + coalesce(octet_length(headers), 0)
                   + coalesce(octet_length(last_error), 0))
                 over (order by name rows between unbounded preceding and 1 preceding) as bytes_before,
       count(*) over () as found
  from (
select name, queue, cron, time_zone, payload::text, headers::text, key, priority, group_key, ttl_seconds, max_attempts,
       missed, missed_after_seconds, paused, next_fire_at, last_fire_at, last_message_id, last_error, created_at,
       updated_at
  from penstock.schedules
 where (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
   and (%(after)s::text is null or name > %(after)s::text)
 order by name
 limit %(limit)s::integer
) page) pages
 where coalesce(bytes_before, 0) < %(max_bytes)s::bigint
 order by name
