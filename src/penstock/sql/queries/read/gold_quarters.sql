-- Gold by the quarter of an hour: as gold_minutes.sql, in that step. By the primary key, or the index on the quarter.
select quarter,
       sum(done::double precision)::bigint, sum(dead::double precision)::bigint,
       sum(others::double precision)::bigint, sum(failed_attempts::double precision)::bigint,
       sum(wait_seconds_p50 * finished) / nullif(sum(finished::double precision), 0),
       max(wait_seconds_p95), max(wait_seconds_p99),
       sum(work_seconds_p50 * finished) / nullif(sum(finished::double precision), 0),
       max(work_seconds_p95), max(work_seconds_p99),
       max(backlog_age_seconds), sum(payload_bytes::double precision)::bigint
  from penstock.gold_queue_quarter
 where quarter > %(since)s::timestamptz - interval '15 min' and quarter < %(until)s::timestamptz
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by 1
 order by 1
