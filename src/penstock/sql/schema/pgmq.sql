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
  -- null: no notifications.
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
