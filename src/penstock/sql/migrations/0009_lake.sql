-- What the data pipeline keeps in PostgreSQL: the lakes that are being filled, what may not be dropped before they have
-- it, and the small gold tables that the UI reads.

-- What the message came to after the attempt: ready, scheduled or dead.
alter table penstock.attempt_log add column state text;

-- Each lake that lands history, registered by `penstock lake run`. History stays until every one of them has it.
create table penstock.lake (
  name               text primary key,
  path               text not null,
  format             text not null,
  registered_at      timestamptz not null default now(),
  -- Everything that these see has landed; they speak of this database, and of no other that it was copied to.
  database           text,
  history_snapshot   pg_snapshot,
  attempts_snapshot  pg_snapshot,
  landed_at          timestamptz,
  landed_rows        bigint not null default 0,
  landed_bytes       bigint not null default 0,
  -- The step of the lake's ledger whose gold is in the tables below.
  published_version  bigint not null default 0,
  published_at       timestamptz,
  verified_at        timestamptz
);

-- The slots of history that were truncated, and the last transaction that had written to each.
create table penstock.history_dropped (
  dropped_at  timestamptz not null default clock_timestamp(),
  slot        smallint not null,
  through_xid xid8 not null
);

-- What was enqueued again out of a lake, by the name of the job: never twice.
create table penstock.lake_replay (
  job         text not null,
  message_id  bigint not null,
  enqueued_at timestamptz not null,
  copy_id     bigint not null,
  replayed_at timestamptz not null default clock_timestamp(),
  primary key (job, message_id, enqueued_at)
);

create table penstock.queue_minute (
  queue                   text not null,
  minute                  timestamptz not null,
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
  payload_bytes_max       bigint,
  primary key (queue, minute)
);
create index queue_minute_minute on penstock.queue_minute (minute);

create table penstock.queue_day (like penstock.queue_minute including defaults);
alter table penstock.queue_day drop column minute;
alter table penstock.queue_day add column day date not null;
alter table penstock.queue_day add primary key (queue, day);
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
