-- The tables and registers of the engine. docs/explanation/engine.md tells the whole story.
--
-- A message is one row in one table, and the table is its state: ready_N, leased_N, scheduled, grouped, dead.
-- ready, leased, body and bell form nine segments: 1 to 8 are used in turn and truncated once they are drained, which
-- gives space back even while another transaction pins the MVCC horizon; 0 is the attic, for the few rows that
-- outlive their segment.
--
-- A register is a sequence used for its last_value: the one thing in PostgreSQL that is updated in place,
-- outside MVCC, and so cannot leave dead rows behind. Registers hold hints and clocks, and one truth: the ring.

create table penstock.queue (
  id                  integer generated always as identity primary key,
  name                text not null unique,
  lease_seconds       integer not null default 30
                      constraint lease_seconds_range check (lease_seconds between 1 and 43200),
  max_attempts        smallint not null default 5
                      constraint max_attempts_range check (max_attempts between 1 and 100),
  backoff             jsonb not null default '{"kind": "exponential", "base_seconds": 1, "max_seconds": 3600, "jitter": 0.2}',
  dlq_enabled         boolean not null default true,
  message_ttl_seconds integer
                      constraint message_ttl_seconds_range check (message_ttl_seconds between 1 and 315360000),
  max_depth           bigint
                      constraint max_depth_range check (max_depth between 1 and 1000000000),
  throughput_limit    integer
                      constraint throughput_limit_range check (throughput_limit between 1 and 1000000),
  max_in_flight       integer
                      constraint max_in_flight_range check (max_in_flight between 1 and 1000000),
  max_payload_bytes   integer not null default 262144
                      constraint max_payload_bytes_range check (max_payload_bytes between 1 and 104857600),
  keep_history        integer not null default 7
                      constraint keep_history_range check (keep_history between 0 and 3650),
  paused              boolean not null default false,
  created_at          timestamptz not null default now(),
  updated_at          timestamptz not null default now(),
  -- No group, no time to live was ever used here: claims need not look for them. Turns false once, for good.
  plain               boolean not null default true,
  -- The priorities ever used, highest first, each with the register of its floor (where its live part begins).
  priorities          smallint[] not null default '{0}',
  floors              regclass[] not null,
  sweep_register      regclass not null,           -- when the floors are moved next, in microseconds
  rescan_register     regclass not null,           -- when the lanes are next searched from their far left
  throughput_register regclass,                    -- made when throughput_limit is first set
  depth_register      regclass,                    -- made when max_depth is first set
  -- Whether the short ways of enqueue and claim are open: each check they do not have to make counts.
  plain_in            boolean not null generated always as (message_ttl_seconds is null and max_depth is null and max_payload_bytes >= 8192) stored,
  plain_out           boolean not null generated always as (plain and not paused and cardinality(priorities) = 1 and max_in_flight is null
                                                            and throughput_limit is null) stored,
  constraint name_is_valid check (name ~ '^[a-z0-9._-]{1,128}$' and name !~ '\.dlq$')
);

-- What a message carries with it through all its states. Only the shape: this table stays empty.
create table penstock.envelope (
  id               bigint not null,
  enqueued_at      timestamptz not null,
  expires_at       timestamptz,
  first_claimed_at timestamptz,
  claimed_at       timestamptz,
  dead_at          timestamptz,      -- set: a dead letter (or one that was claimed from the dead letters)
  queue_id         integer not null,
  priority         smallint not null,
  attempt          smallint not null,
  max_attempts     smallint not null,
  body_slot        smallint,         -- set: the payload is in body_N (or in the attic's), not in this row
  worker           text,
  key              text,
  group_key        text,
  headers          jsonb,
  payload          jsonb,
  payload_bytes    bytea,
  last_error       text
);

-- Ids and positions come from one sequence: a new message's position is its id; one that comes back gets a new
-- position, behind everything that was ready by then.
create sequence penstock.position;
create sequence penstock.lease_number;

do $segments$
declare
  slot integer;
  storage text;
begin
  for slot in 0..8 loop
    -- Segments are truncated, so autovacuum would only stand in the way of the lock that takes. The attic is not.
    storage := case when slot = 0 then '' else 'with (autovacuum_enabled = off, toast.autovacuum_enabled = off)' end;
    execute format('create table penstock.ready_%s (position bigint not null, like penstock.envelope) %s', slot, storage);
    execute format('create index ready_%1$s_lane on penstock.ready_%1$s (queue_id, priority, position)', slot);
    execute format('create index ready_%1$s_key on penstock.ready_%1$s (queue_id, key) where key is not null', slot);
    execute format('create index ready_%1$s_expiry on penstock.ready_%1$s (expires_at) where expires_at is not null', slot);
    execute format('create table penstock.leased_%s (token bigint not null, lease_until timestamptz not null,
                      position bigint not null, watched boolean not null, like penstock.envelope) %s', slot, storage);
    -- watched: has a key, or was claimed from a queue with max_in_flight; only these pay for the third index.
    execute format('create index leased_%1$s_watched on penstock.leased_%1$s (queue_id, lease_until) where watched', slot);
    execute format('create index leased_%1$s_token on penstock.leased_%1$s (token, id)', slot);
    execute format('create index leased_%1$s_until on penstock.leased_%1$s (lease_until)', slot);
    execute format('create table penstock.body_%s (id bigint not null, payload jsonb, payload_bytes bytea) %s', slot, storage);
    execute format('create index body_%1$s_id on penstock.body_%1$s (id)', slot);
    -- A row here rings at the commit of the transaction that found upkeep to do: see _tick.
    execute format('create table penstock.bell_%s (rung_at timestamptz not null) %s', slot, storage);
    -- Since when it was seen to hold nothing, in microseconds.
    execute format('create sequence penstock.drained_%s minvalue 0', slot);
    perform setval(format('penstock.drained_%s', slot), 0);
  end loop;
end $segments$;

-- Messages that become ready later. A row with a group_key is a group's ticket (see grouped).
create table penstock.scheduled (due_at timestamptz not null, like penstock.envelope);
create index scheduled_due on penstock.scheduled (due_at);
create unique index scheduled_id on penstock.scheduled (id) where group_key is null;
create index scheduled_key on penstock.scheduled (queue_id, key) where key is not null;
create index scheduled_expiry on penstock.scheduled (expires_at) where expires_at is not null;
create index scheduled_queue on penstock.scheduled (queue_id, due_at);

-- The waiting messages of groups. Each group has one ticket: a row in ready or scheduled with its group_key and
-- without a payload, or the one message of the group that is leased. Who claims the ticket gets the group's next
-- message, so a group is served in order, one at a time, and claims of other messages never see it. A ticket's id
-- is the position after which that next message is found.
create table penstock.message_group (
  queue_id  integer not null,
  group_key text not null,
  primary key (queue_id, group_key)
);
create table penstock.grouped (position bigint not null, visible_at timestamptz not null, like penstock.envelope);
create index grouped_order on penstock.grouped (queue_id, group_key, position);
create unique index grouped_id on penstock.grouped (id);
create index grouped_key on penstock.grouped (queue_id, key) where key is not null;
create index grouped_expiry on penstock.grouped (expires_at) where expires_at is not null;

-- One row for each key in use: the lock under which enqueue looks for a waiting message with that key, and what
-- makes two REPEATABLE READ callers with the same key conflict instead of not seeing each other.
create table penstock.message_key (
  queue_id integer not null,
  key      text not null,
  id       bigint not null,       -- the newest message with the key
  primary key (queue_id, key)
);

create table penstock.dead (like penstock.envelope);
alter table penstock.dead add primary key (id);
create index dead_queue on penstock.dead (queue_id, id);

-- History and attempts: append-only, in sixteen time slots that are truncated when all they hold is too old.
-- xid lets a reader follow them without gaps: what a later snapshot sees and an earlier one did not.
create table penstock.history_log (
  slot                smallint not null,
  xid                 xid8 not null default pg_current_xact_id(),
  id                  bigint not null,
  queue               text not null,
  state               text not null constraint state_is_final check (state in ('done', 'dead', 'expired', 'cancelled', 'superseded')),
  enqueued_at         timestamptz not null,
  first_claimed_at    timestamptz,
  last_claimed_at     timestamptz,
  finished_at         timestamptz not null,
  attempts            smallint not null,
  max_attempts        smallint not null,
  priority            smallint not null,
  payload_bytes_count integer not null,
  headers_bytes_count integer not null,
  worker              text,
  key                 text,
  group_key           text,
  last_error          text,
  headers             jsonb,
  payload             jsonb,
  payload_bytes       bytea
) partition by list (slot);
create table penstock.attempt_log (
  slot       smallint not null,
  xid        xid8 not null default pg_current_xact_id(),
  message_id bigint not null,
  queue      text not null,
  attempt    smallint not null,
  worker     text,
  started_at timestamptz not null,
  ended_at   timestamptz not null,
  error      text
) partition by list (slot);
create index history_log_xid on penstock.history_log (xid, id);
create index history_log_id on penstock.history_log (id);
create index attempt_log_xid on penstock.attempt_log (xid, message_id);
create index attempt_log_message on penstock.attempt_log (message_id);
do $slots$
begin
  for slot in 0..15 loop
    execute format('create table penstock.history_log_%1$s partition of penstock.history_log for values in (%1$s)', slot);
    execute format('create table penstock.attempt_log_%1$s partition of penstock.attempt_log for values in (%1$s)', slot);
  end loop;
end $slots$;
-- When each slot was begun; the newest is the one that is written to. A row changes about once a day.
create table penstock.history_slot (
  slot       smallint primary key,
  begun_at   timestamptz not null
);
insert into penstock.history_slot values (0, now());

-- The ring, as decimal digits: the segments that are closing, a 9, the segments in use from the oldest to the
-- current one, which takes the inserts. 21938 says: 2 and 1 are closing, 3 and 8 are in use, 8 is current, and
-- the others are free. One number, so that it changes at once for everybody.
create sequence penstock.ring minvalue 0;
create sequence penstock.ring_until minvalue 0;       -- the position from which on the next segment is taken
-- How far positions had been handed out at a sweep, by turns of 5 ms: the one before last turn's is old enough that
-- what was enqueued before it has been committed, unless its transaction is slow.
create sequence penstock.mark_0 minvalue 0;
create sequence penstock.mark_1 minvalue 0;
create sequence penstock.mark_2 minvalue 0;
-- Clocks in microseconds, and where the live part of the timers begins.
create sequence penstock.tick_at minvalue 0;
create sequence penstock.ring_check_at minvalue 0;
create sequence penstock.upkeep_at minvalue 0;
create sequence penstock.lease_floor minvalue 0;
create sequence penstock.due_floor minvalue 0;
create sequence penstock.timer_rescan_at minvalue 0;
create sequence penstock.history_current minvalue 0;
select setval('penstock.ring', 91), setval('penstock.ring_until', 32768),
       setval('penstock.mark_0', 0), setval('penstock.mark_1', 0), setval('penstock.mark_2', 0),
       setval('penstock.tick_at', 0), setval('penstock.ring_check_at', 0), setval('penstock.upkeep_at', 0),
       setval('penstock.lease_floor', 0),
       setval('penstock.due_floor', 0), setval('penstock.timer_rescan_at', 0), setval('penstock.history_current', 0);

-- What claim hands out.
create type penstock.lease as (
  id             bigint,
  token          bigint,
  queue          text,
  payload        jsonb,
  payload_bytes  bytea,
  headers        jsonb,
  key            text,
  priority       integer,
  group_key      text,
  attempt        integer,
  max_attempts   integer,
  enqueued_at    timestamptz,
  lease_until    timestamptz,
  expires_at     timestamptz,
  last_error     text,
  original_queue text
);

create type penstock.queue_stats as (
  queue                text,
  ready                bigint,
  scheduled            bigint,
  leased               bigint,
  dead                 bigint,
  oldest_ready_seconds double precision,
  estimated            boolean
);
