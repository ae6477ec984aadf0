-- Gold by queue, over some days: the busiest first. By the index on the day.
select queue,
       sum(done)::bigint, sum(dead)::bigint, sum(expired + cancelled + superseded)::bigint, sum(failed_attempts)::bigint,
       sum(wait_seconds_p50 * finished) / nullif(sum(finished) filter (where wait_seconds_p50 is not null), 0), max(wait_seconds_p95), max(wait_seconds_p99),
       sum(work_seconds_p50 * finished) / nullif(sum(finished) filter (where work_seconds_p50 is not null), 0), max(work_seconds_p95), max(work_seconds_p99),
       max(backlog_age_seconds), sum(payload_bytes)::bigint
  from penstock.gold_queue_day
 where day >= %(since)s::timestamptz::date and day <= %(until)s::timestamptz::date
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by 1
 order by sum(finished) desc, queue
 limit 50
