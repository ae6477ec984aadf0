-- Cancels a task that has not started. Locks: the row of the task. Uses service_task_pkey.
create or replace function penstock.cancel_service_task(service text, task uuid, cancelled_by text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  t penstock.service_task := penstock._service_task(service, task);
begin
  if t.status <> 'pending' then
    perform penstock._fail_task_status(t.id, t.status, 'Only a pending task can be cancelled.');
  end if;
  perform penstock._end_task(t.id, 'cancelled', null, format('cancelled by %s', cancelled_by));
end $$;
