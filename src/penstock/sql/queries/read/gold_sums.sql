-- The sums of a step of gold: messages by state, failed attempts, times, backlog and bytes. Part of the other queries.
-- They are floating-point numbers, which take a third of the time of numeric ones, and are exact up to 2^53.
       sum(done::double precision)::bigint, sum(dead::double precision)::bigint,
       sum({others}::double precision)::bigint, sum(failed_attempts::double precision)::bigint,
       sum(wait_seconds_p50 * finished) / nullif(sum(finished::double precision), 0),
       max(wait_seconds_p95), max(wait_seconds_p99),
       sum(work_seconds_p50 * finished) / nullif(sum(finished::double precision), 0),
       max(work_seconds_p95), max(work_seconds_p99),
       max(backlog_age_seconds), sum(payload_bytes::double precision)::bigint
