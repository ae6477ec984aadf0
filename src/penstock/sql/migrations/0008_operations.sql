-- Operators send commands to workers.
-- Clients from version 1 on work with it.
alter table penstock.heartbeat
  add column command text constraint command_is_known check (command in ('quiet', 'stop')),
  add column command_for timestamptz;

-- Operators acknowledge and mute findings of the admin UI. A finding is known by its kind and its subject: a queue, a
-- worker, a schedule or a lake. The note counts until its end, and while the finding is not more severe.
create table penstock.finding_note (
  kind     text not null constraint kind_length check (octet_length(kind) between 1 and 100),
  subject  text not null constraint subject_length check (octet_length(subject) <= 1024),
  state    text not null constraint state_is_known check (state in ('acknowledged', 'muted')),
  severity text not null constraint severity_is_known check (severity in ('note', 'warning', 'critical')),
  reason   text not null constraint reason_length check (length(reason) between 1 and 500),
  noted_by text not null,
  noted_at timestamptz not null,
  until_at timestamptz not null,
  primary key (kind, subject)
);

-- A purge keeps what it removed for an hour, so that it can be undone.
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

-- Acts of operators on all messages that match a filter. A server carries one out step by step: its id is the payload of
-- a message in the queue penstock.bulk_acts. `place` is where the next step begins, in the transaction of the step.
create table penstock.bulk_act (
  id              uuid primary key default gen_random_uuid(),
  act             text not null
                  constraint act_is_known check (act in ('cancel', 'redrive', 'replay', 'move', 'set_priority')),
  queues          text[],                              -- null: all but internal ones
  state           text not null,
  key             text,                                -- the filter, as in penstock.sight_filter
  error           text,
  worker          text,
  enqueued_before timestamptz not null,
  enqueued_after  timestamptz,
  to_queue        text,
  priority        integer,
  per_second      numeric constraint rate_is_positive check (per_second > 0),
  max_count       bigint constraint count_is_positive check (max_count > 0),
  dry_run         boolean not null,
  status          text not null default 'pending'
                  constraint status_is_known check (status in ('pending', 'running', 'done', 'stopped', 'failed')),
  stop_asked      boolean not null default false,
  place           text,
  looked          bigint not null default 0,
  matched         bigint not null default 0,
  changed         bigint not null default 0,
  error_message   text,
  created_by      text,
  created_at      timestamptz not null default clock_timestamp(),
  updated_at      timestamptz not null default clock_timestamp(),
  finished_at     timestamptz
);
create index bulk_act_created_at on penstock.bulk_act (created_at);
