-- Starts a task. Returns nothing if the task is already finished, so that the server only acks its message. Locks: the
-- row of the task. Uses service_task_pkey.
create or replace function penstock.begin_task(task uuid)
returns table (kind text, name text, service text, dsn text, database_name text, visibility_timeout_seconds integer,
               max_attempts integer, dlq_enabled boolean, request jsonb, failures integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update penstock.service_task t set status = 'running' where t.id = begin_task.task and t.status
    in ('pending', 'running');
  if not found then
    return;
  end if;
  update penstock.service_queue q set status = 'Provisioning', updated_at = clock_timestamp()
  from penstock.service_task t where t.id = begin_task.task and t.queue_id = q.id and t.kind = 'create'
    and q.status = 'Pending';
  return query
  select t.kind, q.name, s.name, s.dsn, q.database_name, q.visibility_timeout_seconds, q.max_attempts, q.dlq_enabled,
    t.request, t.failures
  from penstock.service_task t join penstock.service_queue q on q.id = t.queue_id join penstock.service s
    on s.id = q.service_id
  where t.id = begin_task.task;
end $$;

-- Starts a task, as a message asks for it. Returns nothing if the task is finished, waits for its service, or has a
-- later message. Locks: the row of the task. Uses service_task_pkey.
create or replace function penstock.begin_task_v2(task uuid, delivery integer)
returns table (kind text, name text, database_name text, visibility_timeout_seconds integer, max_attempts integer,
               dlq_enabled boolean, request jsonb, failures integer, service_id uuid, service text, dsn text,
               secret text, password_file text, address_version integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  if not exists (select from penstock.service_task t where t.id = begin_task_v2.task and t.waiting_since is null
    and t.deliveries = coalesce(begin_task_v2.delivery, t.deliveries) for update) then
    return;
  end if;
  return query
  select b.kind, b.name, b.database_name, b.visibility_timeout_seconds, b.max_attempts, b.dlq_enabled, b.request,
    b.failures, s.id, s.name, s.dsn, s.secret, s.password_file, s.address_version
  from penstock.begin_task(begin_task_v2.task) b, penstock.service_task t join penstock.service_queue q
    on q.id = t.queue_id join penstock.service s on s.id = q.service_id
  where t.id = begin_task_v2.task;
end $$;
