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
--: for each segment
create table penstock.lane_{slot} (
  position bigint not null,
  hold     bigint not null default 0,
  like penstock.envelope
) with (fillfactor = 50);
alter table penstock.lane_{slot} replica identity full;
create index lane_{slot}_order on penstock.lane_{slot} (queue_id, priority, position);
create index lane_{slot}_key on penstock.lane_{slot} (queue_id, key) where key is not null;
create index lane_{slot}_expiry on penstock.lane_{slot} (expires_at) where expires_at is not null;
-- finds messages that became ready again
create index lane_{slot}_back on penstock.lane_{slot} (id) where position <> id;
--: end

-- Messages that a claim has moved here. watched: the message has a key, or the queue has max_in_flight; only these rows
-- pay for a third index. A negative token marks a lease that is settled by its id alone.
--: for each segment
create table penstock.leased_{slot} (
  token       bigint not null,
  lease_until timestamptz not null,
  position    bigint not null,
  watched     boolean not null,
  like penstock.envelope
);
alter table penstock.leased_{slot} replica identity full;
create index leased_{slot}_token on penstock.leased_{slot} (token, id);
create index leased_{slot}_until on penstock.leased_{slot} (lease_until);
create index leased_{slot}_watched on penstock.leased_{slot} (queue_id, lease_until) where watched;
create index leased_{slot}_id on penstock.leased_{slot} (id) where token < 0;
--: end

-- One row for each claim that leases messages in place: the worker, and the positions where the leased messages are.
-- The row is deleted once its lease has expired and has been dealt with, or with its segment.
--: for each segment
create table penstock.grant_{slot} (
  lease_until    timestamptz not null,
  hold           bigint not null,
  claimed_at     timestamptz not null,
  first_position bigint not null,
  last_position  bigint not null,
  queue_id       integer not null,
  priority       smallint not null,
  worker         text
);
alter table penstock.grant_{slot} replica identity full;
create index grant_{slot}_until on penstock.grant_{slot} (lease_until);
--: end

-- Large payloads. The unique index is the replica identity, so that the WAL does not repeat the payload.
--: for each segment
create table penstock.body_{slot} (
  id            bigint not null,
  payload       jsonb,
  payload_bytes bytea
);
create unique index body_{slot}_id on penstock.body_{slot} (id);
alter table penstock.body_{slot} replica identity using index body_{slot}_id;
--: end

-- Deferred upkeep: each row is work to do when its transaction commits. A deferred trigger does it. The real body of
-- the function comes with the functions: functions/background/run_deferred.sql.
create function penstock._run_deferred() returns trigger language plpgsql as $$ begin return null; end $$;
--: for each segment
create table penstock.deferred_{slot} (
  announced_at timestamptz not null,
  kind         text not null default 'upkeep',
  queue_id     integer,
  priority     smallint,
  position     bigint,
  group_key    text
);
alter table penstock.deferred_{slot} replica identity full;
create constraint trigger at_commit after insert on penstock.deferred_{slot} deferrable initially deferred
  for each row execute function penstock._run_deferred();
--: end

-- Segments 1 to 8 are truncated, and the lock of autovacuum would get in the way. It does vacuum the overflow segment.
--: for each ring segment
alter table penstock.lane_{slot} set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.leased_{slot} set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.grant_{slot} set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.body_{slot} set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table penstock.deferred_{slot} set (autovacuum_enabled = off, toast.autovacuum_enabled = off);
--: end

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
