-- Batches: messages that belong together, and the messages that are enqueued when all of them have ended.
--
-- No row is updated for each member. The transaction that ends members deletes their rows in batch_member and inserts
-- one row into batch_change. penstock.finish_batches adds up these rows under a lock on the batch, so it alone decides
-- that the last member has ended.
create table penstock.batch (
  id           bigint generated always as identity primary key,
  name         text constraint name_length check (length(name) between 1 and 200),
  -- Arrays of messages: objects with the parameters of penstock.enqueue.
  on_success   jsonb not null default '[]',
  on_failure   jsonb not null default '[]',
  on_finish    jsonb not null default '[]',
  -- Counts of members, without the rows that are still in batch_change.
  total        bigint not null default 0,
  done         bigint not null default 0,
  dead         bigint not null default 0,
  expired      bigint not null default 0,
  cancelled    bigint not null default 0,
  created_at   timestamptz not null default clock_timestamp(),
  sealed_at    timestamptz,              -- no members can be added after this time
  cancelled_at timestamptz,
  finished_at  timestamptz,              -- its messages were enqueued
  last_error   text                      -- why its messages could not be enqueued
);
create index batch_finished on penstock.batch (finished_at) where finished_at is not null;
create index batch_failing on penstock.batch (id) where finished_at is null and last_error is not null;

-- The members that have not ended, and the members that are dead letters.
create table penstock.batch_member (
  id       bigint primary key,           -- of the message
  batch_id bigint not null,
  is_dead  boolean not null default false
);

-- What happened to members of a batch in one transaction.
create table penstock.batch_change (
  batch_id  bigint not null,
  added     integer not null default 0,
  done      integer not null default 0,
  dead      integer not null default 0,
  expired   integer not null default 0,
  cancelled integer not null default 0
);
create index batch_change_batch on penstock.batch_change (batch_id);
alter table penstock.batch_change replica identity full;

-- What running tasks report about themselves. Unlogged: a crash empties it, and the next report fills it again.
create unlogged table penstock.progress (
  id         bigint primary key,         -- of the message
  attempt    smallint not null,
  fraction   real constraint fraction_range check (fraction between 0 and 1),
  note       text,
  log        text[] not null default '{}',
  updated_at timestamptz not null
);
create index progress_updated_at on penstock.progress (updated_at);
