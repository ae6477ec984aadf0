-- A table for the results of tasks.
-- Clients from version 1 on work with it.
create table penstock.result (
  id          bigint primary key,       -- of the message
  value       jsonb not null,
  finished_at timestamptz not null,
  expires_at  timestamptz not null
);
create index result_expires_at on penstock.result (expires_at);
