-- The schema as it was when Penstock was first released: the expansion of schema/ at that time. A database gets later
-- changes from the migrations that follow. Migrations that have been applied are never edited.

-- History and attempts: append-only, in sixteen time slots. A slot is truncated once all it holds is too old. xid lets
-- a reader follow the rows without gaps: it reads what a later snapshot sees and an earlier one did not.
create table penstock.history_log (
  slot                smallint not null,
  xid                 xid8 not null default pg_current_xact_id(),
  id                  bigint not null,
  queue               text not null,
  state               text not null
                      constraint state_is_final check (state in ('done', 'dead', 'expired', 'cancelled', 'superseded')),
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
alter table penstock.history_log replica identity full;
create index history_log_xid on penstock.history_log (xid, id);
create index history_log_id on penstock.history_log (id);

create table penstock.attempt_log (
  slot       smallint not null,
  xid        xid8 not null default pg_current_xact_id(),
  message_id bigint not null,
  queue      text not null,
  attempt    smallint not null,
  worker     text,
  started_at timestamptz not null,
  ended_at   timestamptz not null,
  error      text,
  state      text                    -- the state of the message after the attempt: ready, scheduled or dead
) partition by list (slot);
alter table penstock.attempt_log replica identity full;
create index attempt_log_xid on penstock.attempt_log (xid, message_id);
create index attempt_log_message on penstock.attempt_log (message_id);

create table penstock.history_log_0 partition of penstock.history_log for values in (0);
create table penstock.attempt_log_0 partition of penstock.attempt_log for values in (0);
alter table penstock.history_log_0 replica identity full;
alter table penstock.attempt_log_0 replica identity full;
create table penstock.history_log_1 partition of penstock.history_log for values in (1);
create table penstock.attempt_log_1 partition of penstock.attempt_log for values in (1);
alter table penstock.history_log_1 replica identity full;
alter table penstock.attempt_log_1 replica identity full;
create table penstock.history_log_2 partition of penstock.history_log for values in (2);
create table penstock.attempt_log_2 partition of penstock.attempt_log for values in (2);
alter table penstock.history_log_2 replica identity full;
alter table penstock.attempt_log_2 replica identity full;
create table penstock.history_log_3 partition of penstock.history_log for values in (3);
create table penstock.attempt_log_3 partition of penstock.attempt_log for values in (3);
alter table penstock.history_log_3 replica identity full;
alter table penstock.attempt_log_3 replica identity full;
create table penstock.history_log_4 partition of penstock.history_log for values in (4);
create table penstock.attempt_log_4 partition of penstock.attempt_log for values in (4);
alter table penstock.history_log_4 replica identity full;
alter table penstock.attempt_log_4 replica identity full;
create table penstock.history_log_5 partition of penstock.history_log for values in (5);
create table penstock.attempt_log_5 partition of penstock.attempt_log for values in (5);
alter table penstock.history_log_5 replica identity full;
alter table penstock.attempt_log_5 replica identity full;
create table penstock.history_log_6 partition of penstock.history_log for values in (6);
create table penstock.attempt_log_6 partition of penstock.attempt_log for values in (6);
alter table penstock.history_log_6 replica identity full;
alter table penstock.attempt_log_6 replica identity full;
create table penstock.history_log_7 partition of penstock.history_log for values in (7);
create table penstock.attempt_log_7 partition of penstock.attempt_log for values in (7);
alter table penstock.history_log_7 replica identity full;
alter table penstock.attempt_log_7 replica identity full;
create table penstock.history_log_8 partition of penstock.history_log for values in (8);
create table penstock.attempt_log_8 partition of penstock.attempt_log for values in (8);
alter table penstock.history_log_8 replica identity full;
alter table penstock.attempt_log_8 replica identity full;
create table penstock.history_log_9 partition of penstock.history_log for values in (9);
create table penstock.attempt_log_9 partition of penstock.attempt_log for values in (9);
alter table penstock.history_log_9 replica identity full;
alter table penstock.attempt_log_9 replica identity full;
create table penstock.history_log_10 partition of penstock.history_log for values in (10);
create table penstock.attempt_log_10 partition of penstock.attempt_log for values in (10);
alter table penstock.history_log_10 replica identity full;
alter table penstock.attempt_log_10 replica identity full;
create table penstock.history_log_11 partition of penstock.history_log for values in (11);
create table penstock.attempt_log_11 partition of penstock.attempt_log for values in (11);
alter table penstock.history_log_11 replica identity full;
alter table penstock.attempt_log_11 replica identity full;
create table penstock.history_log_12 partition of penstock.history_log for values in (12);
create table penstock.attempt_log_12 partition of penstock.attempt_log for values in (12);
alter table penstock.history_log_12 replica identity full;
alter table penstock.attempt_log_12 replica identity full;
create table penstock.history_log_13 partition of penstock.history_log for values in (13);
create table penstock.attempt_log_13 partition of penstock.attempt_log for values in (13);
alter table penstock.history_log_13 replica identity full;
alter table penstock.attempt_log_13 replica identity full;
create table penstock.history_log_14 partition of penstock.history_log for values in (14);
create table penstock.attempt_log_14 partition of penstock.attempt_log for values in (14);
alter table penstock.history_log_14 replica identity full;
alter table penstock.attempt_log_14 replica identity full;
create table penstock.history_log_15 partition of penstock.history_log for values in (15);
create table penstock.attempt_log_15 partition of penstock.attempt_log for values in (15);
alter table penstock.history_log_15 replica identity full;
alter table penstock.attempt_log_15 replica identity full;

-- When each time slot was begun. The newest is the one that is written to. A row changes about once a day.
create table penstock.history_slot (
  slot       smallint primary key,
  begun_at   timestamptz not null
);
insert into penstock.history_slot values (0, now());

-- The time slots that were truncated, and the last transaction that had written to each.
create table penstock.history_dropped (
  dropped_at  timestamptz not null default clock_timestamp(),
  slot        smallint not null,
  through_xid xid8 not null
);
alter table penstock.history_dropped replica identity full;

-- Messages that an import has put into a queue and not yet removed from the source (or never will, with --keep). After
-- an import was killed, the next one knows what it need not bring again.
create table penstock.import_row (
  source text not null,
  key    text not null,
  primary key (source, key)
);

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
  verified_at        timestamptz
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

-- Gold, as the lake published it last: by minute, by quarter of an hour and by day. A chart of a day is drawn from
-- quarters: by minute, a day of 200 queues is 288,000 rows, which take a fifth of a second to add up.
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

-- Gold by the quarter follows gold by the minute. The real body of the function is in functions/lake/gold.sql.
create function penstock._roll_gold() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger roll_new after insert on penstock.queue_minute referencing new table as changed
  for each statement execute function penstock._roll_gold();
create trigger roll_changed after update on penstock.queue_minute referencing new table as changed
  for each statement execute function penstock._roll_gold();

-- Schema mdb_queue, for code written against the mdb_queue SQL contract. contracts/mdb_queue has its views and
-- functions.
do $schema$
begin
  if to_regnamespace('mdb_queue') is not null
     and obj_description(to_regnamespace('mdb_queue'), 'pg_namespace')
         is distinct from 'Queues of Penstock, for code written against the mdb_queue SQL contract.' then
    raise exception 'there is a schema mdb_queue already, and it is not Penstock''s'
      using hint = 'Rename it (alter schema mdb_queue rename to ...), or install Penstock in another database.';
  end if;
end $schema$;
create schema if not exists mdb_queue;
comment on schema mdb_queue is 'Queues of Penstock, for code written against the mdb_queue SQL contract.';

-- Messages. A message is one row in one table, and the table is its state: lane_N (ready, or leased in place),
-- leased_N, scheduled, grouped or dead. docs/explanation/engine.md explains the life of a message.
--
-- lane, leased, grant, body and deferred form nine segments. Segments 1 to 8 are used in turn and truncated once they
-- are empty, which frees their space even while another transaction holds back the MVCC horizon. Segment 0 is the
-- overflow segment, for the few rows that outlive their segment. layout/ring.sql says which segments are in use.
--
-- Tables without a primary key have the replica identity FULL: without one, a publication for all tables makes every
-- UPDATE and DELETE fail. A unique index on every insert would cost more than it is worth.

-- The columns that a message has in every state. This table stays empty; it is a type.
create table penstock.envelope (
  id               bigint not null,
  enqueued_at      timestamptz not null,
  expires_at       timestamptz,
  first_claimed_at timestamptz,
  claimed_at       timestamptz,
  dead_at          timestamptz,      -- set for a dead letter, and for a message claimed from the dead letters
  queue_id         integer not null,
  priority         smallint not null,
  attempt          smallint not null,
  max_attempts     smallint not null,
  body_slot        smallint,         -- set if the payload is in body_N (or in body_0), not in this row
  worker           text,
  key              text,
  group_key        text,
  headers          jsonb,
  payload          jsonb,
  payload_bytes    bytea,
  last_error       text
);
alter table penstock.envelope replica identity full;

-- Ids and positions come from one sequence. The position of a new message is its id. A message that becomes ready again
-- gets a new position, behind every message that was ready by then.
create sequence penstock.position;
create sequence penstock.lease_number;

-- Ready messages, and messages leased in place. hold is 0 for a ready message, else it says when the lease ends (see
-- layout/token.sql). hold stands in front so that the WAL record of a claim holds only the changed beginning of the
-- row. Half of each page stays free for the new versions of leased rows: while they fit there, a claim touches no
-- index.
create table penstock.lane_0 (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_0 replica identity full;
create index lane_0_order on penstock.lane_0 (queue_id, priority, position);
create index lane_0_key on penstock.lane_0 (queue_id, key) where key is not null;
create index lane_0_expiry on penstock.lane_0 (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_0_back on penstock.lane_0 (id) where position <> id;
create table penstock.lane_1 (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_1 replica identity full;
create index lane_1_order on penstock.lane_1 (queue_id, priority, position);
create index lane_1_key on penstock.lane_1 (queue_id, key) where key is not null;
create index lane_1_expiry on penstock.lane_1 (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_1_back on penstock.lane_1 (id) where position <> id;
create table penstock.lane_2 (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_2 replica identity full;
create index lane_2_order on penstock.lane_2 (queue_id, priority, position);
create index lane_2_key on penstock.lane_2 (queue_id, key) where key is not null;
create index lane_2_expiry on penstock.lane_2 (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_2_back on penstock.lane_2 (id) where position <> id;
create table penstock.lane_3 (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_3 replica identity full;
create index lane_3_order on penstock.lane_3 (queue_id, priority, position);
create index lane_3_key on penstock.lane_3 (queue_id, key) where key is not null;
create index lane_3_expiry on penstock.lane_3 (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_3_back on penstock.lane_3 (id) where position <> id;
create table penstock.lane_4 (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_4 replica identity full;
create index lane_4_order on penstock.lane_4 (queue_id, priority, position);
create index lane_4_key on penstock.lane_4 (queue_id, key) where key is not null;
create index lane_4_expiry on penstock.lane_4 (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_4_back on penstock.lane_4 (id) where position <> id;
create table penstock.lane_5 (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_5 replica identity full;
create index lane_5_order on penstock.lane_5 (queue_id, priority, position);
create index lane_5_key on penstock.lane_5 (queue_id, key) where key is not null;
create index lane_5_expiry on penstock.lane_5 (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_5_back on penstock.lane_5 (id) where position <> id;
create table penstock.lane_6 (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_6 replica identity full;
create index lane_6_order on penstock.lane_6 (queue_id, priority, position);
create index lane_6_key on penstock.lane_6 (queue_id, key) where key is not null;
create index lane_6_expiry on penstock.lane_6 (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_6_back on penstock.lane_6 (id) where position <> id;
create table penstock.lane_7 (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_7 replica identity full;
create index lane_7_order on penstock.lane_7 (queue_id, priority, position);
create index lane_7_key on penstock.lane_7 (queue_id, key) where key is not null;
create index lane_7_expiry on penstock.lane_7 (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_7_back on penstock.lane_7 (id) where position <> id;
create table penstock.lane_8 (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_8 replica identity full;
create index lane_8_order on penstock.lane_8 (queue_id, priority, position);
create index lane_8_key on penstock.lane_8 (queue_id, key) where key is not null;
create index lane_8_expiry on penstock.lane_8 (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_8_back on penstock.lane_8 (id) where position <> id;

-- Messages that a claim has moved here. watched: the message has a key, or the queue has max_in_flight; only these rows
-- pay for a third index. A negative token marks a lease that is settled by its id alone.
create table penstock.leased_0 (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_0 replica identity full;
create index leased_0_token on penstock.leased_0 (token, id);
create index leased_0_until on penstock.leased_0 (lease_until);
create index leased_0_watched on penstock.leased_0 (queue_id, lease_until) where watched;
create index leased_0_id on penstock.leased_0 (id) where token < 0;
create table penstock.leased_1 (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_1 replica identity full;
create index leased_1_token on penstock.leased_1 (token, id);
create index leased_1_until on penstock.leased_1 (lease_until);
create index leased_1_watched on penstock.leased_1 (queue_id, lease_until) where watched;
create index leased_1_id on penstock.leased_1 (id) where token < 0;
create table penstock.leased_2 (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_2 replica identity full;
create index leased_2_token on penstock.leased_2 (token, id);
create index leased_2_until on penstock.leased_2 (lease_until);
create index leased_2_watched on penstock.leased_2 (queue_id, lease_until) where watched;
create index leased_2_id on penstock.leased_2 (id) where token < 0;
create table penstock.leased_3 (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_3 replica identity full;
create index leased_3_token on penstock.leased_3 (token, id);
create index leased_3_until on penstock.leased_3 (lease_until);
create index leased_3_watched on penstock.leased_3 (queue_id, lease_until) where watched;
create index leased_3_id on penstock.leased_3 (id) where token < 0;
create table penstock.leased_4 (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_4 replica identity full;
create index leased_4_token on penstock.leased_4 (token, id);
create index leased_4_until on penstock.leased_4 (lease_until);
create index leased_4_watched on penstock.leased_4 (queue_id, lease_until) where watched;
create index leased_4_id on penstock.leased_4 (id) where token < 0;
create table penstock.leased_5 (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_5 replica identity full;
create index leased_5_token on penstock.leased_5 (token, id);
create index leased_5_until on penstock.leased_5 (lease_until);
create index leased_5_watched on penstock.leased_5 (queue_id, lease_until) where watched;
create index leased_5_id on penstock.leased_5 (id) where token < 0;
create table penstock.leased_6 (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_6 replica identity full;
create index leased_6_token on penstock.leased_6 (token, id);
create index leased_6_until on penstock.leased_6 (lease_until);
create index leased_6_watched on penstock.leased_6 (queue_id, lease_until) where watched;
create index leased_6_id on penstock.leased_6 (id) where token < 0;
create table penstock.leased_7 (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_7 replica identity full;
create index leased_7_token on penstock.leased_7 (token, id);
create index leased_7_until on penstock.leased_7 (lease_until);
create index leased_7_watched on penstock.leased_7 (queue_id, lease_until) where watched;
create index leased_7_id on penstock.leased_7 (id) where token < 0;
create table penstock.leased_8 (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_8 replica identity full;
create index leased_8_token on penstock.leased_8 (token, id);
create index leased_8_until on penstock.leased_8 (lease_until);
create index leased_8_watched on penstock.leased_8 (queue_id, lease_until) where watched;
create index leased_8_id on penstock.leased_8 (id) where token < 0;

-- One row for each claim that leases messages in place: the worker, and the positions where the leased messages are.
-- The row is deleted once its lease has expired and has been dealt with, or with its segment.
create table penstock.grant_0 (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_0 replica identity full;
create index grant_0_until on penstock.grant_0 (lease_until);
create table penstock.grant_1 (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_1 replica identity full;
create index grant_1_until on penstock.grant_1 (lease_until);
create table penstock.grant_2 (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_2 replica identity full;
create index grant_2_until on penstock.grant_2 (lease_until);
create table penstock.grant_3 (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_3 replica identity full;
create index grant_3_until on penstock.grant_3 (lease_until);
create table penstock.grant_4 (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_4 replica identity full;
create index grant_4_until on penstock.grant_4 (lease_until);
create table penstock.grant_5 (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_5 replica identity full;
create index grant_5_until on penstock.grant_5 (lease_until);
create table penstock.grant_6 (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_6 replica identity full;
create index grant_6_until on penstock.grant_6 (lease_until);
create table penstock.grant_7 (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_7 replica identity full;
create index grant_7_until on penstock.grant_7 (lease_until);
create table penstock.grant_8 (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_8 replica identity full;
create index grant_8_until on penstock.grant_8 (lease_until);

-- Large payloads. The unique index is the replica identity, so that the WAL does not repeat the payload.
create table penstock.body_0 (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_0_id on penstock.body_0 (id);
alter table penstock.body_0 replica identity using index body_0_id;
create table penstock.body_1 (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_1_id on penstock.body_1 (id);
alter table penstock.body_1 replica identity using index body_1_id;
create table penstock.body_2 (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_2_id on penstock.body_2 (id);
alter table penstock.body_2 replica identity using index body_2_id;
create table penstock.body_3 (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_3_id on penstock.body_3 (id);
alter table penstock.body_3 replica identity using index body_3_id;
create table penstock.body_4 (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_4_id on penstock.body_4 (id);
alter table penstock.body_4 replica identity using index body_4_id;
create table penstock.body_5 (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_5_id on penstock.body_5 (id);
alter table penstock.body_5 replica identity using index body_5_id;
create table penstock.body_6 (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_6_id on penstock.body_6 (id);
alter table penstock.body_6 replica identity using index body_6_id;
create table penstock.body_7 (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_7_id on penstock.body_7 (id);
alter table penstock.body_7 replica identity using index body_7_id;
create table penstock.body_8 (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_8_id on penstock.body_8 (id);
alter table penstock.body_8 replica identity using index body_8_id;

-- Deferred upkeep: each row is work to do when its transaction commits. A deferred trigger does it. The real body of
-- the function comes with the functions: functions/background/run_deferred.sql.
create function penstock._run_deferred() returns trigger language plpgsql as $$ begin return null; end $$;
create table penstock.deferred_0 (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_0 replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_0 deferrable initially deferred
  for each row execute function penstock._run_deferred();
create table penstock.deferred_1 (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_1 replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_1 deferrable initially deferred
  for each row execute function penstock._run_deferred();
create table penstock.deferred_2 (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_2 replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_2 deferrable initially deferred
  for each row execute function penstock._run_deferred();
create table penstock.deferred_3 (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_3 replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_3 deferrable initially deferred
  for each row execute function penstock._run_deferred();
create table penstock.deferred_4 (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_4 replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_4 deferrable initially deferred
  for each row execute function penstock._run_deferred();
create table penstock.deferred_5 (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_5 replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_5 deferrable initially deferred
  for each row execute function penstock._run_deferred();
create table penstock.deferred_6 (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_6 replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_6 deferrable initially deferred
  for each row execute function penstock._run_deferred();
create table penstock.deferred_7 (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_7 replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_7 deferrable initially deferred
  for each row execute function penstock._run_deferred();
create table penstock.deferred_8 (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_8 replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_8 deferrable initially deferred
  for each row execute function penstock._run_deferred();

-- Segments 1 to 8 are truncated, and the lock of autovacuum would get in the way. It does vacuum the overflow segment.
alter table penstock.lane_1 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.leased_1 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.grant_1 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.body_1 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.deferred_1 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.lane_2 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.leased_2 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.grant_2 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.body_2 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.deferred_2 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.lane_3 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.leased_3 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.grant_3 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.body_3 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.deferred_3 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.lane_4 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.leased_4 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.grant_4 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.body_4 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.deferred_4 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.lane_5 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.leased_5 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.grant_5 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.body_5 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.deferred_5 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.lane_6 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.leased_6 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.grant_6 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.body_6 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.deferred_6 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.lane_7 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.leased_7 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.grant_7 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.body_7 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.deferred_7 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.lane_8 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.leased_8 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.grant_8 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.body_8 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.deferred_8 set (autovacuum_enabled = off, toast.autovacuum_enabled = off);

-- Messages that become ready later. A row with a group_key is a group token (see grouped).
create table penstock.scheduled (
  due_at timestamptz not null,
  like penstock.envelope
);
alter table penstock.scheduled replica identity full;
create index scheduled_due on penstock.scheduled (due_at);
create unique index scheduled_id on penstock.scheduled (id) where group_key is null;
create index scheduled_key on penstock.scheduled (queue_id, key) where key is not null;
create index scheduled_expiry on penstock.scheduled (expires_at) where expires_at is not null;
create index scheduled_queue on penstock.scheduled (queue_id, due_at);

-- The waiting messages of groups. Each group has one group token: a row in lane_N or scheduled with its group_key and
-- without a payload, or the one message of the group that is leased. A claim that takes the group token gets the next
-- message of the group. So a group is served in order, one message at a time, and claims of other messages never see
-- it. The id of a group token is the position after which the next message is found. A message joins its group when its
-- transaction commits. Until then its position is negative.
create table penstock.grouped (
  position   bigint not null,
  visible_at timestamptz not null,
  like penstock.envelope
);
create index grouped_order on penstock.grouped (queue_id, group_key, position);
create unique index grouped_id on penstock.grouped (id);
create index grouped_key on penstock.grouped (queue_id, key) where key is not null;
create index grouped_expiry on penstock.grouped (expires_at) where expires_at is not null;
create index grouped_joining on penstock.grouped (position) where position < 0;
alter table penstock.grouped replica identity using index grouped_id;

-- One row for each group that has a group token.
create table penstock.message_group (
  queue_id  integer not null,
  group_key text not null,
  primary key (queue_id, group_key)
);

-- One row for each key in use. enqueue locks it while it looks for a waiting message with that key. It also makes two
-- REPEATABLE READ callers with the same key conflict.
create table penstock.message_key (
  queue_id integer not null,
  key      text not null,
  id       bigint not null,          -- the newest message with the key
  primary key (queue_id, key)
);

-- Dead letters.
create table penstock.dead (
  like penstock.envelope,
  primary key (id)
);
create index dead_queue on penstock.dead (queue_id, id);

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
  lane_bits              integer not null default 512,
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

  -- Whether the short paths of enqueue and claim may be used: each check that they need not make counts. Internal
  -- queues, whose names begin with "penstock.", take the long paths, which check the caller.
  plain_in               boolean not null generated always as (
                           message_ttl_seconds is null and max_depth is null and max_payload_bytes >= 8192
                           and not name ^@ 'penstock.') stored,
  plain_out              boolean not null generated always as (
                           plain and not paused and cardinality(priorities) = 1 and max_in_flight is null
                           and throughput_limit is null and not name ^@ 'penstock.') stored,
  constraint name_is_valid check (name ~ '^[a-z0-9._-]{1,128}$' and name !~ '\.dlq$')
);

-- Tables of schema pgmq, which is installed on request.

-- The arguments of pgmq.create. A queue that was created in another way has no row here.
create table penstock.pgmq_queue (
  queue_id             integer primary key references penstock.queue (id) on delete cascade,
  key                  text not null unique,         -- the queue's name
  name                 text not null,                -- the name as it was given, with capitals
  is_partitioned       boolean not null default false,
  is_unlogged          boolean not null default false,
  created_at           timestamptz not null default now(),
  sent_register        regclass not null,            -- how many messages were sent
  -- null: nobody is notified.
  throttle_interval_ms integer constraint throttle_is_not_negative check (throttle_interval_ms >= 0),
  notified_register    regclass                      -- when listeners were last notified, in microseconds
);

-- No foreign key to penstock.queue: every archived message would lock the row of its queue, which cost a tenth of the
-- pace with 64 connections. drop_queue deletes the archive of a queue.
create table penstock.pgmq_archive (
  queue_id     integer not null,
  msg_id       bigint not null,
  read_ct      integer not null default 0,
  enqueued_at  timestamptz not null default now(),
  last_read_at timestamptz,
  archived_at  timestamptz not null default now(),
  vt           timestamptz not null,
  message      jsonb,
  headers      jsonb,
  primary key (queue_id, msg_id)
);
create index pgmq_archive_age on penstock.pgmq_archive (queue_id, archived_at);

create table penstock.pgmq_binding (
  pattern        text not null,
  queue_id       integer not null references penstock.queue (id) on delete cascade,
  bound_at       timestamptz not null default now(),
  -- * stands for one segment of a routing key, # for any number of them.
  compiled_regex text not null generated always as (
    '^' || replace(replace(regexp_replace(pattern, '([.+?{}()|\[\]\\^$])', '\\\1', 'g'), '*', '[^.]+'), '#', '.*')
    || '$') stored,
  primary key (pattern, queue_id)
);
create index pgmq_binding_queue on penstock.pgmq_binding (queue_id);

-- Registers of the whole database. penstock.queue names those of each queue. All of them are sequences that are used
-- for their last_value, which changes in place, outside MVCC. Registers hold hints and clocks, and one truth: the ring.

create sequence penstock.ring minvalue 0;              -- the segments in use: layout/ring.sql draws it
create sequence penstock.ring_until minvalue 0;        -- the position from which on the next segment is used
create sequence penstock.ring_turned_at minvalue 0;    -- when the current segment was taken, in microseconds
-- since when segment 0 was seen empty, in microseconds
create sequence penstock.drained_0 minvalue 0;
-- since when segment 1 was seen empty, in microseconds
create sequence penstock.drained_1 minvalue 0;
-- since when segment 2 was seen empty, in microseconds
create sequence penstock.drained_2 minvalue 0;
-- since when segment 3 was seen empty, in microseconds
create sequence penstock.drained_3 minvalue 0;
-- since when segment 4 was seen empty, in microseconds
create sequence penstock.drained_4 minvalue 0;
-- since when segment 5 was seen empty, in microseconds
create sequence penstock.drained_5 minvalue 0;
-- since when segment 6 was seen empty, in microseconds
create sequence penstock.drained_6 minvalue 0;
-- since when segment 7 was seen empty, in microseconds
create sequence penstock.drained_7 minvalue 0;
-- since when segment 8 was seen empty, in microseconds
create sequence penstock.drained_8 minvalue 0;

-- Clocks: when something is done next, in microseconds since 1970.
create sequence penstock.tick_at minvalue 0;           -- look whether there is upkeep to do
create sequence penstock.ring_check_at minvalue 0;     -- look whether segments can be closed
create sequence penstock.upkeep_at minvalue 0;         -- the upkeep that is due every minute
create sequence penstock.timer_rescan_at minvalue 0;   -- look for due messages and expired leases below the floors
create sequence penstock.clock_was_at minvalue 0;      -- what the clock showed before it was set back, or 0

-- Floors of the timers: everything due, or expired, up to this moment has been dealt with. In microseconds.
create sequence penstock.lease_floor minvalue 0;
create sequence penstock.due_floor minvalue 0;

-- How many generations have begun, and how many of these beginnings are over, in all queues. An enqueue that finds both
-- numbers equal, and unchanged at its end, knows that it has joined the right generation.
create sequence penstock.flips_begun minvalue 0;
create sequence penstock.flips_over minvalue 0;

create sequence penstock.rescans_found minvalue 0;     -- how often a rescan has found a message below a floor
create sequence penstock.history_current minvalue 0;   -- the time slot that history is written to

select setval('penstock.drained_0', 0);
select setval('penstock.drained_1', 0);
select setval('penstock.drained_2', 0);
select setval('penstock.drained_3', 0);
select setval('penstock.drained_4', 0);
select setval('penstock.drained_5', 0);
select setval('penstock.drained_6', 0);
select setval('penstock.drained_7', 0);
select setval('penstock.drained_8', 0);
select setval('penstock.ring', 91), setval('penstock.ring_until', 32768),
       setval('penstock.ring_turned_at', 0),
       setval('penstock.tick_at', 0), setval('penstock.ring_check_at', 0), setval('penstock.upkeep_at', 0),
       setval('penstock.timer_rescan_at', 0), setval('penstock.clock_was_at', 0),
       setval('penstock.lease_floor', 0), setval('penstock.due_floor', 0),
       setval('penstock.flips_begun', 0), setval('penstock.flips_over', 0),
       setval('penstock.rescans_found', 0), setval('penstock.history_current', 0);

-- Schedules: cron rules that enqueue messages. A row changes when its schedule fires, at most once a minute.
create table penstock.schedule (
  id                   integer generated always as identity primary key,
  name                 text not null unique
                       constraint name_is_valid check (name ~ '^[a-z0-9._-]{1,128}$'),
  queue_id             integer not null references penstock.queue,
  cron                 text not null,
  time_zone            text not null,
  -- What is enqueued at each fire.
  payload              jsonb not null,
  headers              jsonb,
  key                  text,
  priority             smallint not null default 0,
  group_key            text,
  ttl_seconds          integer
                       constraint ttl_seconds_range check (ttl_seconds between 1 and 315360000),
  max_attempts         smallint
                       constraint max_attempts_range check (max_attempts between 1 and 100),
  -- What becomes of fires that were missed: see penstock._fire.
  missed               text not null default 'once'
                       constraint missed_is_known check (missed in ('once', 'all', 'skip')),
  missed_after_seconds integer not null default 60
                       constraint missed_after_seconds_range check (missed_after_seconds between 1 and 86400),
  paused               boolean not null default false,
  next_fire_at         timestamptz not null,
  last_fire_at         timestamptz,      -- the time that the latest fire was due
  last_message_id      bigint,
  last_error           text,             -- why the fire that is due could not be enqueued
  created_at           timestamptz not null default now(),
  updated_at           timestamptz not null default now()
);
create index schedule_due on penstock.schedule (next_fire_at) where not paused;
create index schedule_queue on penstock.schedule (queue_id);

-- Tables of the HTTP server: API keys, the activity log, and the answers to calls that may be repeated.

-- API keys. The table holds the scrypt hash of each secret. Names of live keys are unique, so that a key can also be
-- used as user name and password.
create table penstock.api_key (
  id          text primary key constraint id_is_valid check (id ~ '^[a-z0-9]{12}$'),
  name        text not null constraint name_is_valid check (name ~ '^[A-Za-z0-9._@-]{1,64}$'),
  secret_hash text not null,
  grants      text[] not null constraint some_grant check (cardinality(grants) between 1 and 100),
  created_at  timestamptz not null default clock_timestamp(),
  created_by  text,
  expires_at  timestamptz,
  revoked_at  timestamptz,
  revoked_by  text
);
create unique index api_key_name on penstock.api_key (name) where revoked_at is null;

-- One secret for all servers on this database: each server can check what another one has signed (sessions of the UI).
create table penstock.server_secret (
  secret   bytea not null,
  only_row boolean primary key default true check (only_row)
);

-- What operators did. Rows are only added.
create table penstock.activity_log (
  id         bigint generated always as identity primary key,
  at         timestamptz not null default clock_timestamp(),
  actor      text not null,
  act        text not null,
  target     text,
  details    jsonb,
  request_id text,
  address    text
);
create index activity_log_at on penstock.activity_log (at);

-- The answer to a call with an Idempotency-Key, written in the transaction of the call.
create table penstock.idempotent_answer (
  actor           text not null,
  idempotency_key text not null,
  fingerprint     bytea not null,
  status          smallint not null,
  body            bytea not null,
  made_at         timestamptz not null default clock_timestamp(),
  primary key (actor, idempotency_key)
);
create index idempotent_answer_made_at on penstock.idempotent_answer (made_at);

-- Sessions and sign-in links that were ended. Live ones are signed tokens and need no row.
create table penstock.ended_token (
  id       text primary key,
  ended_at timestamptz not null default clock_timestamp()
);

-- The control plane: PostgreSQL services that operators registered, the queues provisioned on them, and the tasks that
-- provision them. Each task is also a message in the queue penstock.tasks.

create table penstock.service (
  id         uuid primary key default gen_random_uuid(),
  name       text not null constraint name_is_valid check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  dsn        text,                 -- null: this database itself
  created_at timestamptz not null default clock_timestamp(),
  created_by text,
  removed_at timestamptz
);
create unique index service_name on penstock.service (name) where removed_at is null;
insert into penstock.service (name) values ('local');

create table penstock.service_queue (
  id                         uuid primary key default gen_random_uuid(),
  service_id                 uuid not null references penstock.service,
  name                       text not null,
  database_name              text not null,
  visibility_timeout_seconds integer not null,
  max_attempts               integer not null,
  dlq_enabled                boolean not null,
  status                     text not null constraint status_is_known
                             check (status in ('Pending', 'Provisioning', 'Active', 'Deprovisioning', 'Failed')),
  error_message              text,
  created_at                 timestamptz not null default clock_timestamp(),
  updated_at                 timestamptz not null default clock_timestamp(),
  deleted_at                 timestamptz
);
create unique index service_queue_name on penstock.service_queue (service_id, name) where deleted_at is null;

create table penstock.service_task (
  id            uuid primary key default gen_random_uuid(),
  kind          text not null constraint kind_is_known check (kind in ('create', 'delete', 'enqueue', 'stats')),
  queue_id      uuid not null references penstock.service_queue,
  status        text not null default 'pending'
                constraint status_is_known check (status in ('pending', 'running', 'completed', 'failed')),
  request       jsonb,
  result        jsonb,
  error_message text,
  failures      integer not null default 0,
  created_by    text,
  created_at    timestamptz not null default clock_timestamp(),
  finished_at   timestamptz
);
create index service_task_finished_at on penstock.service_task (finished_at);
create index service_task_queue on penstock.service_task (queue_id);

-- On the side of the service: the tasks that were carried out in this database, and their results. Written in the
-- transaction of the task, so that a task that is delivered twice is carried out once.
create table penstock.applied_task (
  task_id    uuid primary key,
  result     jsonb not null,
  applied_at timestamptz not null default clock_timestamp()
);
create index applied_task_at on penstock.applied_task (applied_at);

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

-- Composite types: the rows that functions return or take.

-- A row of penstock.claim.
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

-- Workers report here every few seconds that they are alive. So few updates leave too few dead rows to matter, even
-- while the MVCC horizon is held back.
create table penstock.heartbeat (
  worker     text primary key constraint worker_length check (octet_length(worker) between 1 and 1024),
  state      text not null constraint state_is_known check (state in ('running', 'draining')),
  started_at timestamptz not null,
  seen_at    timestamptz not null,
  report     jsonb not null
) with (fillfactor = 50);

-- Views of the two kinds of messages in a lane: ready_N, and held_N for messages that are leased in place, with the
-- columns of leased_N. place is the ctid of the row. The views call no function of ours, so that a reader of a view made
-- of them needs no right to call one. They are part of the schema, and not replaced with the functions: replacing a view
-- that claims use would make them wait for the whole upgrade.
-- from schema/lane_views.sql:6, segment 0
create view penstock.ready_0 as
select position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error from penstock.lane_0 where hold = 0;

create view penstock.held_0 as
select (4611686018427387904 + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer >> 1)::bigint << 45) + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer & 1) << 4)) + 0 + (('x' || encode(tidsend(l.ctid), 'hex'))::bit(48)::bigint << 5) as token,
  to_timestamp((l.hold >> 11) / 1e6::double precision) as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_0 g
                                where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_0 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_0 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_0 l where l.hold <> 0;
-- from schema/lane_views.sql:6, segment 1
create view penstock.ready_1 as
select position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error from penstock.lane_1 where hold = 0;

create view penstock.held_1 as
select (4611686018427387904 + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer >> 1)::bigint << 45) + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer & 1) << 4)) + 1 + (('x' || encode(tidsend(l.ctid), 'hex'))::bit(48)::bigint << 5) as token,
  to_timestamp((l.hold >> 11) / 1e6::double precision) as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_1 g
                                where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_1 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_1 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_1 l where l.hold <> 0;
-- from schema/lane_views.sql:6, segment 2
create view penstock.ready_2 as
select position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error from penstock.lane_2 where hold = 0;

create view penstock.held_2 as
select (4611686018427387904 + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer >> 1)::bigint << 45) + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer & 1) << 4)) + 2 + (('x' || encode(tidsend(l.ctid), 'hex'))::bit(48)::bigint << 5) as token,
  to_timestamp((l.hold >> 11) / 1e6::double precision) as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_2 g
                                where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_2 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_2 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_2 l where l.hold <> 0;
-- from schema/lane_views.sql:6, segment 3
create view penstock.ready_3 as
select position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error from penstock.lane_3 where hold = 0;

create view penstock.held_3 as
select (4611686018427387904 + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer >> 1)::bigint << 45) + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer & 1) << 4)) + 3 + (('x' || encode(tidsend(l.ctid), 'hex'))::bit(48)::bigint << 5) as token,
  to_timestamp((l.hold >> 11) / 1e6::double precision) as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_3 g
                                where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_3 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_3 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_3 l where l.hold <> 0;
-- from schema/lane_views.sql:6, segment 4
create view penstock.ready_4 as
select position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error from penstock.lane_4 where hold = 0;

create view penstock.held_4 as
select (4611686018427387904 + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer >> 1)::bigint << 45) + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer & 1) << 4)) + 4 + (('x' || encode(tidsend(l.ctid), 'hex'))::bit(48)::bigint << 5) as token,
  to_timestamp((l.hold >> 11) / 1e6::double precision) as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_4 g
                                where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_4 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_4 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_4 l where l.hold <> 0;
-- from schema/lane_views.sql:6, segment 5
create view penstock.ready_5 as
select position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error from penstock.lane_5 where hold = 0;

create view penstock.held_5 as
select (4611686018427387904 + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer >> 1)::bigint << 45) + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer & 1) << 4)) + 5 + (('x' || encode(tidsend(l.ctid), 'hex'))::bit(48)::bigint << 5) as token,
  to_timestamp((l.hold >> 11) / 1e6::double precision) as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_5 g
                                where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_5 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_5 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_5 l where l.hold <> 0;
-- from schema/lane_views.sql:6, segment 6
create view penstock.ready_6 as
select position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error from penstock.lane_6 where hold = 0;

create view penstock.held_6 as
select (4611686018427387904 + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer >> 1)::bigint << 45) + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer & 1) << 4)) + 6 + (('x' || encode(tidsend(l.ctid), 'hex'))::bit(48)::bigint << 5) as token,
  to_timestamp((l.hold >> 11) / 1e6::double precision) as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_6 g
                                where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_6 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_6 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_6 l where l.hold <> 0;
-- from schema/lane_views.sql:6, segment 7
create view penstock.ready_7 as
select position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error from penstock.lane_7 where hold = 0;

create view penstock.held_7 as
select (4611686018427387904 + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer >> 1)::bigint << 45) + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer & 1) << 4)) + 7 + (('x' || encode(tidsend(l.ctid), 'hex'))::bit(48)::bigint << 5) as token,
  to_timestamp((l.hold >> 11) / 1e6::double precision) as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_7 g
                                where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_7 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_7 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_7 l where l.hold <> 0;
-- from schema/lane_views.sql:6, segment 8
create view penstock.ready_8 as
select position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error from penstock.lane_8 where hold = 0;

create view penstock.held_8 as
select (4611686018427387904 + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer >> 1)::bigint << 45) + (((l.hold >> 10 & 131070 | (l.hold & 1))::integer & 1) << 4)) + 8 + (('x' || encode(tidsend(l.ctid), 'hex'))::bit(48)::bigint << 5) as token,
  to_timestamp((l.hold >> 11) / 1e6::double precision) as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_8 g
                                where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_8 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_8 g
   where g.lease_until = to_timestamp((l.hold >> 11) / 1e6::double precision) and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_8 l where l.hold <> 0;
