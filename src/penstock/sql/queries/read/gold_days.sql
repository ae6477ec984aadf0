-- Gold by the day: what ended, and how long it took. 95th and 99th percentiles are those of the worst queue. By the
-- index on the day. Sums are of floating point, which takes a third of the time of exact ones, and is exact up to 2^53.
select day::timestamp at time zone 'UTC',
       sum(done::double precision)::bigint, sum(dead::double precision)::bigint,
       sum((expired + cancelled + superseded)::double precision)::bigint,
       sum(failed_attempts::double precision)::bigint,
       sum(wait_seconds_p50 * finished) / nullif(sum(finished::double precision), 0),
       max(wait_seconds_p95), max(wait_seconds_p99),
       sum(work_seconds_p50 * finished) / nullif(sum(finished::double precision), 0),
       max(work_seconds_p95), max(work_seconds_p99),
       max(backlog_age_seconds), sum(payload_bytes::double precision)::bigint
  from penstock.gold_queue_day
 where day >= %(since)s::timestamptz::date and day <= %(until)s::timestamptz::date
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by 1
 order by 1
