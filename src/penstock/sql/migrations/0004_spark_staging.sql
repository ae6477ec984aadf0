-- A write of Spark is all or nothing: its rows are staged, and published in one transaction.
-- Clients from version 1 on work with it.
-- What Spark has published: one row for each write, in the transaction that enqueued all of its rows. A write is
-- recognised by its name, and compared by the number of its rows and a checksum that does not depend on their order.
create table penstock.spark_write (
  job          text not null,
  epoch        bigint not null,                        -- the batch of a stream; 0 for a batch
  is_named     boolean not null,                       -- false: forgotten after a day, see _forget_staged
  count        bigint not null,
  checksum     bigint not null,
  published_at timestamptz not null default clock_timestamp(),
  repeats      integer not null default 0,             -- how often the same rows were written again
  repeated_at  timestamptz,
  primary key (job, epoch)
);

-- Messages that wait for their write to be published. A row has up to 10,000 messages for one queue, in parallel
-- arrays. An array is null if no message has a value for it. Each attempt of a task has its own id, so the rows of
-- attempts that failed are never published. Unlogged: a crash empties the table, and a write that has lost its rows
-- fails.
create unlogged table penstock.spark_staged (
  attempt        uuid not null,
  piece          integer not null,
  staged_at      timestamptz not null default clock_timestamp(),
  queue          text not null,
  count          integer not null,
  checksum       bigint not null,                      -- of its messages, see spark_stage
  largest        integer not null,                     -- the stored size of the largest payload
  is_scheduled   boolean not null,                     -- some messages have a delay or a time
  has_lanes      boolean not null,                     -- some have a priority or a time to live
  payloads       jsonb[],
  payloads_bytes bytea[],
  headers        jsonb[],
  keys           text[],
  priorities     integer[],
  group_keys     text[],
  delays         double precision[],
  visible_ats    timestamptz[],
  ttls           double precision[],
  max_attempts   integer[],
  primary key (attempt, piece)
);
-- Compressing them takes longer than writing them.
alter table penstock.spark_staged alter payloads set storage external, alter payloads_bytes set storage external,
  alter headers set storage external, alter keys set storage external, alter group_keys set storage external;
