-- Wake-ups: made for a queue when somebody first attends to it (see functions/29_wake.sql).
alter table penstock.queue
  add column notify_register  regclass,      -- from when on enqueuers notify those who wait, in microseconds
  add column waiting_register regclass;      -- until when somebody waits for messages of this queue

-- Workers say here that they are alive, every few seconds. So few updates that their dead rows do not matter, even
-- while the horizon is pinned.
create table penstock.heartbeat (
  worker     text primary key constraint worker_length check (octet_length(worker) between 1 and 1024),
  state      text not null constraint state_is_known check (state in ('running', 'draining')),
  started_at timestamptz not null,
  seen_at    timestamptz not null,
  report     jsonb not null
) with (fillfactor = 50);
