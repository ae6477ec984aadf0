-- Lakes: `penstock lake run` registers each lake that reads history. History stays until all of them have read it.
create table penstock.lake (
  name               text primary key,
  path               text not null,
  format             text not null,
  registered_at      timestamptz not null default now(),
  -- Everything visible in these snapshots has landed. They are valid in this database only, not in a copy.
  database           text,
  history_snapshot   pg_snapshot,
  attempts_snapshot  pg_snapshot,
  landed_at          timestamptz,
  landed_rows        bigint not null default 0,
  landed_bytes       bigint not null default 0,
  -- The version of the lake whose gold is in the tables below.
  published_version  bigint not null default 0,
  published_at       timestamptz,
  verified_at        timestamptz,
  -- When the newest message or attempt in each layer ended, and the rows of bronze that silver lacks.
  bronze_newest_at   timestamptz,
  silver_newest_at   timestamptz,
  gold_newest_at     timestamptz,
  pending_rows       bigint not null default 0
);

-- Messages that were enqueued again from a lake, by the name of the job: each at most once.
create table penstock.lake_replay (
  job         text not null,
  message_id  bigint not null,
  enqueued_at timestamptz not null,
  copy_id     bigint not null,
  replayed_at timestamptz not null default clock_timestamp(),
  primary key (job, message_id, enqueued_at)
);

-- What queue_minute and queue_day say of a queue.
--: define gold.measures as
  finished                bigint not null,
  done                    bigint not null,
  dead                    bigint not null,
  expired                 bigint not null,
  cancelled               bigint not null,
  superseded              bigint not null,
  retried                 bigint not null,
  failed_attempts         bigint not null,
  wait_seconds_p50        double precision,
  wait_seconds_p95        double precision,
  wait_seconds_p99        double precision,
  work_seconds_p50        double precision,
  work_seconds_p95        double precision,
  work_seconds_p99        double precision,
  end_to_end_seconds_p50  double precision,
  end_to_end_seconds_p95  double precision,
  end_to_end_seconds_p99  double precision,
  backlog_age_seconds     double precision,
  work_seconds            double precision,
  payload_bytes           bigint not null,
  payload_bytes_max       bigint
--: end

-- Gold, as the lake published it last: by minute, by quarter of an hour and by day. A chart of a day is drawn from
-- quarters: by minute, a day of 200 queues is 288,000 rows, which take a fifth of a second to add up.
create table penstock.queue_minute (
  queue                   text not null,
  minute                  timestamptz not null,
  {gold.measures},
  primary key (queue, minute)
);
create index queue_minute_minute on penstock.queue_minute (minute);

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

create table penstock.queue_day (
  queue                   text not null,
  day                     date not null,
  {gold.measures},
  primary key (queue, day)
);
create index queue_day_day on penstock.queue_day (day);

create table penstock.error_day (
  queue             text not null,
  day               date not null,
  error_fingerprint text not null,
  error_kind        text not null,
  error             text not null,
  retries           bigint not null,
  dead              bigint not null,
  first_at          timestamptz not null,
  last_at           timestamptz not null,
  primary key (queue, day, error_fingerprint)
);
create index error_day_day on penstock.error_day (day);

create table penstock.worker_minute (
  queue           text not null,
  worker          text not null,
  minute          timestamptz not null,
  finished        bigint not null,
  failed_attempts bigint not null,
  busy_seconds    double precision,
  primary key (queue, worker, minute)
);
create index worker_minute_minute on penstock.worker_minute (minute);

-- Gold of quarter hours is computed from gold of minutes. The real body of the function is in functions/lake/gold.sql.
create function penstock._roll_gold() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger roll_new after insert on penstock.queue_minute referencing new table as changed
  for each statement execute function penstock._roll_gold();
create trigger roll_changed after update on penstock.queue_minute referencing new table as changed
  for each statement execute function penstock._roll_gold();

-- The catalog of lakes in the Iceberg format, in the form that Iceberg's JDBC catalog prescribes (its version 1).
-- Spark,
-- Trino and PyIceberg find the tables here. A commit replaces metadata_location if it is still the one that was read.
create table penstock.iceberg_tables (
  catalog_name               varchar(255) not null,
  table_namespace            varchar(255) not null,
  table_name                 varchar(255) not null,
  metadata_location          varchar(1000),
  previous_metadata_location varchar(1000),
  iceberg_type               varchar(5),
  primary key (catalog_name, table_namespace, table_name)
);

create table penstock.iceberg_namespace_properties (
  catalog_name   varchar(255) not null,
  namespace      varchar(255) not null,
  property_key   varchar(255) not null,
  property_value varchar(1000),
  primary key (catalog_name, namespace, property_key)
);
