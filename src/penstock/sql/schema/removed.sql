-- A purge keeps the removed messages for an hour, so that it can be undone.
create table penstock.purge (
  id        uuid primary key default gen_random_uuid(),
  queue_id  integer not null,
  is_dead   boolean not null,        -- it removed dead letters
  count     bigint not null,
  purged_at timestamptz not null,
  undone_at timestamptz
);
create index purge_queue on penstock.purge (queue_id, purged_at);

-- The messages that a purge removed. Their payloads are here even if they were large.
create table penstock.purged (
  purge_id         uuid not null references penstock.purge on delete cascade,
  due_at           timestamptz,
  id               bigint not null,
  enqueued_at      timestamptz not null,
  expires_at       timestamptz,
  first_claimed_at timestamptz,
  claimed_at       timestamptz,
  dead_at          timestamptz,
  priority         smallint not null,
  attempt          smallint not null,
  max_attempts     smallint not null,
  worker           text,
  key              text,
  group_key        text,
  headers          jsonb,
  payload          jsonb,
  payload_bytes    bytea,
  last_error       text,
  primary key (purge_id, id)
);
