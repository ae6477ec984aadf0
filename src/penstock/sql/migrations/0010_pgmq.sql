-- What schema pgmq keeps, where it is installed; and how a message is found by its id when it came back.

-- A ready message that never came back has its id for its position, and is found by that in its lane; only the others
-- are indexed by id.
do $segments$
begin
  for slot in 0..8 loop
    execute format('create index ready_%1$s_back on penstock.ready_%1$s (id) where position <> id', slot);
  end loop;
end $segments$;

-- What pgmq.create was told of a queue. A queue that was made in another way has no row here, and needs none.
create table penstock.pgmq_queue (
  queue_id             integer primary key references penstock.queue (id) on delete cascade,
  key                  text not null unique,         -- the queue's name
  name                 text not null,                -- the same as it was given: capitals and all
  is_partitioned       boolean not null default false,
  is_unlogged          boolean not null default false,
  created_at           timestamptz not null default now(),
  sent_register        regclass not null,            -- how many messages were sent
  throttle_interval_ms integer constraint throttle_is_not_negative check (throttle_interval_ms >= 0),   -- null: nobody is notified
  notified_register    regclass                      -- when they last were, in microseconds
);

create table penstock.pgmq_archive (
  queue_id     integer not null references penstock.queue (id) on delete cascade,
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
  -- * is one segment, # any number of them; everything else stands for itself.
  compiled_regex text not null generated always as (
    '^' || replace(replace(regexp_replace(pattern, '([.+?{}()|\[\]\\^$])', '\\\1', 'g'), '*', '[^.]+'), '#', '.*') || '$') stored,
  primary key (pattern, queue_id)
);
create index pgmq_binding_queue on penstock.pgmq_binding (queue_id);

-- Which contracts were asked for here, beside those that are always there, and with which text.
create table penstock.migration_contract (
  name       text primary key,
  checksum   text not null,
  version    integer not null,
  applied_at timestamptz not null default clock_timestamp()
);
