-- Spark as a consumer and as a producer. docs/explanation/spark.md explains why delivery is exactly once.

-- A stream that claims, known by the name in its checkpoint. A row changes a few times in each batch.
create table penstock.spark_consumer (
  name         text primary key
               constraint name_is_valid check (name ~ '^[a-z0-9._-]{1,128}$'),
  generation   bigint not null,            -- one more for each run, so that an older run notices
  acked_tick   bigint not null default 0,  -- the batches up to here are in the sink
  begun_at     timestamptz not null default clock_timestamp(),
  seen_at      timestamptz not null default clock_timestamp()
);

-- The share of one task in a batch. The driver plans it, the task claims it at its first read, and every further read
-- returns the same messages until they are settled.
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

-- What Spark has enqueued: one row for each partition of a write, in the transaction that enqueued it. Part -1 says
-- that the whole write is complete.
create table penstock.spark_written (
  job        text not null,
  epoch      bigint not null,
  part       integer not null,
  count      bigint not null,
  checksum   bigint not null,
  written_at timestamptz not null default clock_timestamp(),
  primary key (job, epoch, part)
);
