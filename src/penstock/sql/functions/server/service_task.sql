-- Returns a task of a service, or raises PS025. Locks: the row of the task. Uses service_task_pkey.
create or replace function penstock._service_task(service text, task uuid) returns penstock.service_task
language plpgsql as $$
#variable_conflict use_column
declare
  s penstock.service := penstock._service(service);
  t penstock.service_task;
begin
  select o.* into t from penstock.service_task o join penstock.service_queue q on q.id = o.queue_id
  where o.id = _service_task.task and q.service_id = s.id for update of o;
  if not found then
    perform penstock._fail('PS025', format('task %L does not exist on service %L', _service_task.task, s.name),
      jsonb_build_object('task', _service_task.task), 'Tasks are deleted a week after they have finished.');
  end if;
  return t;
end $$;
