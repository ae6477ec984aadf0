-- Results of tasks: what a task returned, written in the transaction of its ack and kept until expires_at.
create table penstock.result (
  id          bigint primary key,       -- of the message
  value       jsonb not null,
  finished_at timestamptz not null,
  expires_at  timestamptz not null,
  next_id     bigint,                   -- the message of the next step, for a step of a chain that is not the last
  queue_id    integer                   -- of the message, to decide who may read the result; null from older clients
);
create index result_expires_at on penstock.result (expires_at);
