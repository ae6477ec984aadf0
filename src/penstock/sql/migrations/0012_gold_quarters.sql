-- Gold by the quarter of an hour: what a chart of a day is drawn from. By the minute, a day of two hundred queues is
-- 288,000 rows, which take a fifth of a second to add up.
create table penstock.queue_quarter (
  queue               text not null,
  quarter             timestamptz not null,
  finished            bigint not null,
  done                bigint not null,
  dead                bigint not null,
  others              bigint not null,
  failed_attempts     bigint not null,
  wait_seconds_p50    double precision,
  wait_seconds_p95    double precision,
  wait_seconds_p99    double precision,
  work_seconds_p50    double precision,
  work_seconds_p95    double precision,
  work_seconds_p99    double precision,
  backlog_age_seconds double precision,
  payload_bytes       bigint not null,
  primary key (queue, quarter)
);
create index queue_quarter_quarter on penstock.queue_quarter (quarter);
