-- The workers in the last published hour of gold: how much each did, and how busy it was. Uses the index on the minute.
select worker, sum(finished)::bigint, sum(failed_attempts)::bigint, sum(busy_seconds), count(distinct queue)
  from penstock.gold_worker_minute
 where minute >= %(since)s::timestamptz and minute < %(until)s::timestamptz
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by worker
 order by sum(busy_seconds) desc nulls last
 limit 50
