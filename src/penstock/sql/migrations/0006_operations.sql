-- Operators send commands to workers.
-- Clients from version 1 on work with it.
alter table penstock.heartbeat
  add column command text constraint command_is_known check (command in ('quiet', 'stop')),
  add column command_for timestamptz;
