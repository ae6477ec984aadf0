-- Composite types: the rows that functions return or take.

-- A row of penstock.claim. src/penstock/model/lease_columns.py lists its columns, for SQL and for Python.
create type penstock.lease as (
  {lease.columns}
);

-- The result of penstock.stats.
create type penstock.queue_stats as (
  queue                text,
  ready                bigint,
  scheduled            bigint,
  leased               bigint,
  dead                 bigint,
  oldest_ready_seconds double precision,
  estimated            boolean
);

-- A row of penstock.spark_claim.
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

-- A row of the penstock.browse functions: enough for a line in a list, without the payload.
create type penstock.sighting as (
  id           bigint,           -- null in the last row, which says how far the search went
  queue        text,
  state        text,
  priority     integer,
  attempt      integer,
  max_attempts integer,
  enqueued_at  timestamptz,
  at           timestamptz,      -- when visible, leased until, dead or finished, by state
  key          text,
  group_key    text,
  worker       text,
  last_error   text,             -- its beginning
  preview      text,             -- the beginning of the payload
  place        text,             -- where a page that follows this row begins
  looked       integer           -- in the last row, how many messages were looked at
);

-- The filter of penstock.browse. A null lets every message through.
create type penstock.sight_filter as (
  key             text,
  error           text,          -- a part of the last error
  worker          text,
  enqueued_before timestamptz,
  enqueued_after  timestamptz
);
