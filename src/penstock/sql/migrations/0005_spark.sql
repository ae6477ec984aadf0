-- Spark as a consumer and as a producer. docs/explanation/spark.md says why it is exactly once.

-- A stream that claims, known by the name in its checkpoint. Changes a few times a batch.
create table penstock.spark_consumer (
  name         text primary key
               constraint name_is_valid check (name ~ '^[a-z0-9._-]{1,128}$'),
  generation   bigint not null,            -- one more for every run: an older run is told that it was taken over
  acked_tick   bigint not null default 0,  -- the batches up to here are in the sink
  begun_at     timestamptz not null default clock_timestamp(),
  seen_at      timestamptz not null default clock_timestamp()
);

-- What one task of a batch takes: planned by the driver, claimed by the task when it first reads, and then the same
-- messages whenever it is read again, until they are settled.
create table penstock.spark_slice (
  consumer    text not null references penstock.spark_consumer on delete cascade,
  tick        bigint not null,
  slice       integer not null,
  queue       text not null,
  wanted      integer not null,
  taken       integer,                     -- null: not claimed yet
  tokens      bigint[],                    -- the leases it holds
  settled_xid xid8,                        -- the transaction that settled them, and nothing else
  primary key (consumer, tick, slice)
);

-- What Spark has enqueued: one row for each partition of a write, in the transaction that enqueued it; part -1 says that
-- the write as a whole is complete.
create table penstock.spark_written (
  job        text not null,
  epoch      bigint not null,
  part       integer not null,
  count      bigint not null,
  checksum   bigint not null,
  written_at timestamptz not null default clock_timestamp(),
  primary key (job, epoch, part)
);

-- What a task gets.
create type penstock.spark_lease as (
  id               bigint,
  queue            text,
  payload          text,
  payload_bytes    bytea,
  headers          text,
  key              text,
  priority         integer,
  group_key        text,
  attempt          integer,
  max_attempts     integer,
  enqueued_at      timestamptz,
  first_claimed_at timestamptz,
  expires_at       timestamptz,
  last_error       text
);
