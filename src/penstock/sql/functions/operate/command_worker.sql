-- Tells a worker to claim no more (quiet), to claim again (resume), or to finish its messages and end (stop). The
-- worker gets the command by a notification, or with its next beat, within ten seconds. PS026 if no such worker was
-- seen within a day, PS027 if its version takes no commands. Locks: the row of the worker. Uses heartbeat_pkey.
create or replace function penstock.command_worker(worker text, command text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  h penstock.heartbeat;
begin
  if command_worker.command not in ('quiet', 'resume', 'stop') or command_worker.command is null then
    perform penstock._fail_value('command', command_worker.command, 'quiet, resume or stop');
  end if;
  select * into h from penstock.heartbeat t where t.worker = command_worker.worker for update;
  if not found then
    perform penstock._fail('PS026', format('worker %L does not exist', left(command_worker.worker, 200)),
      jsonb_build_object('worker', left(command_worker.worker, 200)),
      'See penstock.heartbeats for the workers that were seen within a day.');
  end if;
  if not h.report @> '{"takes_commands": true}' then
    perform penstock._fail('PS027', format('worker %L takes no commands: it runs version %s of Penstock', h.worker,
      coalesce(h.report ->> 'version', 'unknown')), jsonb_build_object('worker', h.worker),
      'Stop it with SIGTERM on its host, and start it with the current version.');
  end if;
  update penstock.heartbeat t set command = nullif(command_worker.command, 'resume'), command_for = h.started_at
  where t.worker = h.worker;
  perform pg_notify('penstock:workers', h.worker);
end $$;
