-- Services have a state that servers check, and secrets that are stored encrypted. Tasks of a service that cannot be
-- reached wait together.
-- Clients from version 1 on work with it.
alter table penstock.service
  add column secret          text,                              -- the password, encrypted
  add column password_file   text,                              -- or the name of the file that holds it
  add column address_version integer not null default 1,
  add column check_at        timestamptz not null default clock_timestamp(),
  add column checked_at      timestamptz,
  add column down_since      timestamptz,
  add column error_message   text,
  add column status          jsonb;                             -- the result of the last successful check

alter table penstock.service_task
  add column deliveries    integer not null default 0,          -- messages for this task before the current one
  add column waiting_since timestamptz;                         -- waits for its service, without a message
-- Unused since version 12.
alter table penstock.service_task drop constraint status_is_known;
alter table penstock.service_task
  add constraint status_is_known check (status in ('pending', 'running', 'completed', 'failed', 'cancelled'));
create index service_task_waiting on penstock.service_task (queue_id) where waiting_since is not null;
