-- The control plane: PostgreSQL services that operators registered, the queues provisioned on them, and the tasks that
-- provision them. Each task is also a message in the queue penstock.tasks.

create table penstock.service (
  id         uuid primary key default gen_random_uuid(),
  name       text not null constraint name_is_valid check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  dsn        text,                 -- null: this database itself
  created_at timestamptz not null default clock_timestamp(),
  created_by text,
  removed_at timestamptz,
  secret          text,                              -- the password, encrypted
  password_file   text,                              -- or the name of the file that holds it
  address_version integer not null default 1,
  check_at        timestamptz not null default clock_timestamp(),
  checked_at      timestamptz,
  down_since      timestamptz,
  error_message   text,
  status          jsonb                              -- the result of the last successful check
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
                constraint status_is_known check (status in ('pending', 'running', 'completed', 'failed', 'cancelled')),
  request       jsonb,
  result        jsonb,
  error_message text,
  failures      integer not null default 0,
  created_by    text,
  created_at    timestamptz not null default clock_timestamp(),
  finished_at   timestamptz,
  deliveries    integer not null default 0,          -- messages for this task before the current one
  waiting_since timestamptz                          -- waits for its service, without a message
);
create index service_task_waiting on penstock.service_task (queue_id) where waiting_since is not null;
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

-- Acts of operators on all messages that match a filter. A server carries one out step by step: its id is the payload
-- of a message in the queue penstock.bulk_acts. `place` is where the next step begins, in the transaction of the step.
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
  finished_at     timestamptz,
  expected        bigint                               -- how many messages matched at the request; null: too many
);
create index bulk_act_created_at on penstock.bulk_act (created_at);
