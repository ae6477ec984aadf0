-- Queues: one row for each, with its settings and the names of its registers.
--
-- A register is a sequence that is used for its last_value. PostgreSQL updates sequences in place, outside MVCC, so a
-- register leaves no dead rows behind. layout/register.sql draws those that hold more than one number.
create table penstock.queue (
  id                     integer generated always as identity primary key,
  name                   text not null unique,

  -- Settings: see penstock.set_queue.
  lease_seconds          integer not null default 30
                         constraint lease_seconds_range check (lease_seconds between 1 and 43200),
  max_attempts           smallint not null default 5
                         constraint max_attempts_range check (max_attempts between 1 and 100),
  backoff                jsonb not null
                         default '{"kind": "exponential", "base_seconds": 1, "max_seconds": 3600, "jitter": 0.2}',
  dlq_enabled            boolean not null default true,
  message_ttl_seconds    integer
                         constraint message_ttl_seconds_range check (message_ttl_seconds between 1 and 315360000),
  max_depth              bigint
                         constraint max_depth_range check (max_depth between 1 and 1000000000),
  throughput_limit       integer
                         constraint throughput_limit_range check (throughput_limit between 1 and 1000000),
  max_in_flight          integer
                         constraint max_in_flight_range check (max_in_flight between 1 and 1000000),
  max_payload_bytes      integer not null default 262144
                         constraint max_payload_bytes_range check (max_payload_bytes between 1 and 104857600),
  keep_history           integer not null default 7
                         constraint keep_history_range check (keep_history between 0 and 3650),
  paused                 boolean not null default false,
  created_at             timestamptz not null default now(),
  updated_at             timestamptz not null default now(),

  -- Lanes: the messages of one queue with one priority form a lane.
  plain                  boolean not null default true,           -- no group and no time to live was ever used here
  priorities             smallint[] not null default '{0}',       -- every priority ever used, highest first
  -- the value of lanes_register that this row reflects
  lane_bits              integer not null default {lanes.priority_0},
  lanes_register         regclass not null,                       -- layout/register.sql draws it
  floors                 regclass[] not null,                     -- for each priority, the position where claims begin
  sweep_register         regclass not null,                       -- when the floors are raised next, in microseconds
  rescan_register        regclass not null,                       -- when the lanes are searched below their floors next

  -- Generations tell a sweep how far it may raise the floors: see functions/claim/sweep.sql.
  generation_register    regclass not null,                       -- layout/register.sql draws it
  mark_register          regclass not null,                       -- the last position when the generation began
  settled_register       regclass not null,                       -- no open transaction has a position up to this one

  -- Where counts begin: see functions/read/first_row.sql.
  first_row_register     regclass not null,                       -- the queue has no row in a lane below this position
  first_row_xid_register regclass not null,                       -- the snapshots for which that is true

  -- These exist once they are needed.
  throughput_register    regclass,                                -- since throughput_limit was first set
  depth_register         regclass,                                -- since max_depth was first set
  notify_register        regclass,                                -- from when on enqueuers notify, in microseconds
  waiting_register       regclass,                                -- until when a consumer waits, in microseconds

  -- Whether the short paths of enqueue and claim may be used: every check that they skip matters. Internal
  -- queues, whose names begin with "penstock.", take the long paths, which check the caller.
  plain_in               boolean not null generated always as (
                           message_ttl_seconds is null and max_depth is null and max_payload_bytes >= 8192
                           and not name ^@ 'penstock.') stored,
  plain_out              boolean not null generated always as (
                           plain and not paused and cardinality(priorities) = 1 and max_in_flight is null
                           and throughput_limit is null and not name ^@ 'penstock.') stored,
  -- Members of batches were enqueued here: to end a message then takes more than a DELETE, as with history.
  has_members            boolean not null default false,
  constraint name_is_valid check (name ~ '^[a-z0-9._-]{1,128}$' and name !~ '\.dlq$')
);
create index queue_has_members on penstock.queue (id) where has_members;
