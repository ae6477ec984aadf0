-- Workers report here every few seconds that they are alive. So few updates leave too few dead rows to matter, even
-- while the MVCC horizon is held back.
create table penstock.heartbeat (
  worker     text primary key constraint worker_length check (octet_length(worker) between 1 and 1024),
  state      text not null constraint state_is_known check (state in ('running', 'draining')),
  started_at timestamptz not null,
  seen_at    timestamptz not null,
  report     jsonb not null,
  -- What an operator wants of the worker, and the start of the process that the command is for: a worker of the same
  -- name that is started later does not get it.
  command     text constraint command_is_known check (command in ('quiet', 'stop')),
  command_for timestamptz,
  -- Its work for queues without history when the charts were last recorded: see penstock.record_charts.
  counted     jsonb
) with (fillfactor = 50);
