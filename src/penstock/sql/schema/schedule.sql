-- Schedules: cron rules that enqueue messages. A row changes when its schedule fires, at most once a second.
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
