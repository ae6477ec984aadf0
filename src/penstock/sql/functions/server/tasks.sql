-- Tasks of the control plane. request_queue records a queue to be created on a service, and the task that creates it.
-- Locks: the rows named. Uses service_queue_name and service_task_pkey.
create or replace function penstock.request_queue(
  service text, name text, database_name text, visibility_timeout_seconds integer, max_attempts integer,
    dlq_enabled boolean, created_by text)
returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s    penstock.service := penstock._service(service);
  made uuid;
begin
  insert into penstock.service_queue as q (service_id, name, database_name, visibility_timeout_seconds, max_attempts,
    dlq_enabled, status)
  values (s.id, request_queue.name, request_queue.database_name, request_queue.visibility_timeout_seconds,
          request_queue.max_attempts, request_queue.dlq_enabled, 'Pending')
  on conflict (service_id, name) where deleted_at is null do nothing returning q.id into made;
  if made is null then
    perform penstock._fail('PS002', format('queue %L already exists on service %L', request_queue.name, s.name),
      jsonb_build_object('queue', request_queue.name, 'service', s.name), 'Use it, or delete it first.');
  end if;
  perform penstock._request_task(made, 'create', null, created_by);
  return made;
end $$;

-- Requests the removal of a queue. A second request while the first is in progress changes nothing. Locks: the row of
-- the queue. Uses service_queue_name.
create or replace function penstock.request_removal(service text, name text, created_by text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q penstock.service_queue := penstock._service_queue(service, name);
begin
  if q.status <> 'Deprovisioning' then
    update penstock.service_queue t set status = 'Deprovisioning', error_message = null, updated_at = clock_timestamp()
      where t.id = q.id;
    perform penstock._request_task(q.id, 'delete', null, created_by);
  end if;
  return q.id;
end $$;

-- Requests an enqueue, or stats, on an active queue. Locks: the new rows. Uses service_queue_name.
create or replace function penstock.request_task(service text, name text, kind text, request jsonb, created_by text)
returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q penstock.service_queue := penstock._service_queue(service, name);
begin
  if q.status <> 'Active' then
    perform penstock._fail('PS024', format('queue %L is %s, not Active', q.name, q.status),
      jsonb_build_object('queue', q.name, 'status', q.status), case q.status when 'Failed' then 'See its error_message.'
      else 'Wait until it is Active.' end);
  end if;
  -- A payload that PostgreSQL does not accept as JSON is refused now, not when the task is executed.
  perform (payload #>> '{}')::jsonb from jsonb_array_elements(request -> 'payloads') payload;
  return penstock._request_task(q.id, kind, request, created_by);
end $$;

-- Returns a queue of a service, or raises PS001.
create or replace function penstock._service_queue(service text, name text) returns penstock.service_queue
language plpgsql as $$
#variable_conflict use_column
declare
  s penstock.service := penstock._service(service);
  q penstock.service_queue;
begin
  select * into q from penstock.service_queue t where t.service_id = s.id and t.name = _service_queue.name
    and t.deleted_at is null for update;
  if not found then
    perform penstock._fail('PS001', format('queue %L does not exist on service %L', left(_service_queue.name, 200),
      s.name), jsonb_build_object('queue', left(_service_queue.name, 200), 'service', s.name), 'Create it first.');
  end if;
  return q;
end $$;

-- Creates a task and its message. The tasks of one queue form a group, so they are executed in the order of the
-- requests.
create or replace function penstock._request_task(queue_id uuid, kind text, request jsonb, created_by text) returns uuid
language plpgsql as $$
#variable_conflict use_column
declare
  made uuid;
begin
  if not exists (select from penstock.queue q where q.name = 'penstock.tasks') then
    -- A crash counts as an attempt. Failures are counted separately, in the task.
    perform penstock.create_queue('penstock.tasks', '{"lease_seconds": 6, "max_attempts": 100, "keep_history": 1}',
      exist_ok => true);
  end if;
  insert into penstock.service_task as t (queue_id, kind, request, created_by)
  values (_request_task.queue_id, _request_task.kind, _request_task.request, _request_task.created_by) returning t.id
    into made;
  perform penstock.enqueue('penstock.tasks', jsonb_build_object('task', made), group_key => queue_id::text);
  return made;
end $$;

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

-- Ends a task with a result or an error. Locks: the rows of the task and its queue. Uses service_task_pkey.
create or replace function penstock.finish_task(task uuid, result jsonb, error_message text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  done penstock.service_task;
begin
  update penstock.service_task t
  set status = case when finish_task.error_message is null then 'completed' else 'failed' end,
      result = finish_task.result, error_message = finish_task.error_message, request = null,
      finished_at = clock_timestamp()
  where t.id = finish_task.task and t.status in ('pending', 'running') returning * into done;
  if done.kind in ('create', 'delete') then
    update penstock.service_queue q
    set status = case when done.status = 'failed' then 'Failed' when done.kind = 'create' then 'Active'
        else q.status end, error_message = done.error_message, updated_at = clock_timestamp(),
        deleted_at = case when done.status = 'completed' and done.kind = 'delete' then clock_timestamp()
          else q.deleted_at end
    -- A queue whose removal was requested in the meantime is still removed.
    where q.id = done.queue_id and not (done.kind = 'create' and q.status = 'Deprovisioning');
  end if;
end $$;

-- Records a failure that may be temporary. The task is tried again. Locks: the row of the task. Uses service_task_pkey.
create or replace function penstock.note_task_failure(task uuid, error_message text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.service_task set failures = failures + 1, error_message = note_task_failure.error_message
    where id = task;
$$;

-- Runs on the service and enqueues the messages of a task. If the task was executed before, returns the earlier result.
-- The row of the task and the messages are written in one transaction, so a task is executed once. Locks: the row of
-- the task, and as enqueue_many.
create or replace function penstock.apply_enqueue(task uuid, queue text, payloads jsonb[], delays interval[])
returns bigint[]
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids bigint[];
begin
  -- A second server with the same task waits here for the first.
  insert into penstock.applied_task (task_id, result) values (task, '[]') on conflict do nothing;
  if not found then
    return array(select value::bigint from penstock.applied_task t, jsonb_array_elements_text(t.result) value
      where t.task_id = task);
  end if;
  ids := array(select penstock.enqueue_many(queue, payloads, delays => delays));
  update penstock.applied_task t set result = to_jsonb(ids) where t.task_id = task;
  return ids;
end $$;
