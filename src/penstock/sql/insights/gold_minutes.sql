-- Gold by the minute, in steps: what ended, and how long it took. A step's 95th and 99th percentiles are those of its worst minute
-- and queue. queue: one, or NULL for all that are named. By the primary key, or the index on the minute.
select to_timestamp(floor(extract(epoch from minute) / %(step)s::integer) * %(step)s::integer),
       sum(done)::bigint, sum(dead)::bigint, sum(expired + cancelled + superseded)::bigint, sum(failed_attempts)::bigint,
       sum(wait_seconds_p50 * finished) / nullif(sum(finished) filter (where wait_seconds_p50 is not null), 0), max(wait_seconds_p95), max(wait_seconds_p99),
       sum(work_seconds_p50 * finished) / nullif(sum(finished) filter (where work_seconds_p50 is not null), 0), max(work_seconds_p95), max(work_seconds_p99),
       max(backlog_age_seconds), sum(payload_bytes)::bigint
  from penstock.gold_queue_minute
 where minute >= %(since)s::timestamptz and minute < %(until)s::timestamptz
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by 1
 order by 1
