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

-- Returns a queue of a service, or raises PS001. Locks: the row of the queue until commit. Uses service_queue_name.
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

-- Creates a task. The tasks of one queue form a group, so they are executed in the order of the requests. A task of a
-- service that cannot be reached has no message: it waits until the service is reached again. Locks: the new row, and
-- the row of the service for share, so that no task begins to wait while a check ends the wait of the others. Uses
-- service_queue_pkey.
create or replace function penstock._request_task(queue_id uuid, kind text, request jsonb, created_by text) returns uuid
language plpgsql as $$
#variable_conflict use_column
declare
  made    uuid;
  is_down boolean;
begin
  select s.down_since is not null into is_down
  from penstock.service s join penstock.service_queue q on q.service_id = s.id
  where q.id = _request_task.queue_id for share of s;
  insert into penstock.service_task as t (queue_id, kind, request, created_by, waiting_since)
  values (_request_task.queue_id, _request_task.kind, _request_task.request, _request_task.created_by,
    case when is_down then clock_timestamp() end) returning t.id into made;
  if not is_down then
    perform penstock._deliver_task(made);
  end if;
  return made;
end $$;

-- Enqueues the message of a task. A message from before is ignored when it is claimed. Locks: the row of the task, and
-- as enqueue. Uses service_task_pkey.
create or replace function penstock._deliver_task(task uuid) returns void
language plpgsql as $$
#variable_conflict use_column
declare
  t penstock.service_task;
begin
  if not exists (select from penstock.queue q where q.name = 'penstock.tasks') then
    -- A crash counts as an attempt. Failures are counted separately, in the task.
    perform penstock.create_queue('penstock.tasks', '{"lease_seconds": 6, "max_attempts": 100, "keep_history": 1}',
      exist_ok => true);
  end if;
  update penstock.service_task s set waiting_since = null, deliveries = s.deliveries + 1, status = 'pending',
    finished_at = null where s.id = task returning * into t;
  perform penstock.enqueue('penstock.tasks', jsonb_build_object('task', t.id, 'delivery', t.deliveries, 'service',
    (select q.service_id from penstock.service_queue q where q.id = t.queue_id)), group_key => t.queue_id::text);
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

-- Ends a task with a result or an error. Locks: the rows of the task and its queue. Uses service_task_pkey.
create or replace function penstock.finish_task(task uuid, result jsonb, error_message text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock._end_task(task, case when error_message is null then 'completed' else 'failed' end, result,
    error_message);
end $$;

-- Ends a task: completed, failed or cancelled. Only a completed task drops its request, because the others can be
-- retried. Locks: the rows of the task and its queue. Uses service_task_pkey.
create or replace function penstock._end_task(task uuid, status text, result jsonb, error_message text) returns void
language plpgsql as $$
#variable_conflict use_column
declare
  done penstock.service_task;
begin
  update penstock.service_task t
  set status = _end_task.status, result = _end_task.result, error_message = _end_task.error_message,
      request = case when _end_task.status <> 'completed' then t.request end, waiting_since = null,
      finished_at = clock_timestamp()
  where t.id = _end_task.task and t.status in ('pending', 'running') returning * into done;
  if done.kind in ('create', 'delete') then
    update penstock.service_queue q
    set status = case when done.status = 'cancelled' and done.kind = 'delete' and penstock._was_created(q.id)
          then 'Active' when done.status <> 'completed' then 'Failed' when done.kind = 'create' then 'Active'
          else q.status end,
        error_message = case when done.status = 'cancelled' and done.kind = 'delete' then null
          else done.error_message end,
        updated_at = clock_timestamp(),
        deleted_at = case when done.status = 'completed' and done.kind = 'delete' then clock_timestamp()
          else q.deleted_at end
    -- A queue whose removal was requested in the meantime is still removed.
    where q.id = done.queue_id and not (done.kind = 'create' and q.status = 'Deprovisioning');
  end if;
end $$;

-- Whether a queue of a service has been created there: by a task that was deleted since, or by one that completed.
-- Locks: none. Uses service_task_queue.
create or replace function penstock._was_created(queue_id uuid) returns boolean language sql stable as $$
  select not exists (select from penstock.service_task t where t.queue_id = _was_created.queue_id
      and t.kind = 'create')
    or exists (select from penstock.service_task t where t.queue_id = _was_created.queue_id and t.kind = 'create'
      and t.status = 'completed');
$$;

-- Cancels a task that has not started. Locks: the row of the task. Uses service_task_pkey.
create or replace function penstock.cancel_service_task(service text, task uuid, cancelled_by text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  t penstock.service_task := penstock._service_task(service, task);
begin
  if t.status <> 'pending' then
    perform penstock._fail('PS040', format('task %s is %s', t.id, t.status), jsonb_build_object('task', t.id,
      'status', t.status), 'Only a pending task can be cancelled.');
  end if;
  perform penstock._end_task(t.id, 'cancelled', null, format('cancelled by %s', cancelled_by));
end $$;

-- Carries out a failed or cancelled task again. A second retry enqueues no message twice. Locks: the
-- rows of the task and its queue. Uses service_task_pkey.
create or replace function penstock.retry_service_task(service text, task uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  t       penstock.service_task := penstock._service_task(service, task);
  q       penstock.service_queue;
  is_down boolean;
begin
  select * into q from penstock.service_queue r where r.id = t.queue_id for update;
  if t.status not in ('failed', 'cancelled') then
    perform penstock._fail('PS040', format('task %s is %s', t.id, t.status), jsonb_build_object('task', t.id,
      'status', t.status), 'Only a failed or cancelled task can be retried.');
  end if;
  if q.deleted_at is not null or t.kind in ('enqueue', 'stats') and q.status <> 'Active' then
    perform penstock._fail('PS024', format('queue %L is %s', q.name, case when q.deleted_at is null then q.status
      else 'removed' end), jsonb_build_object('queue', q.name, 'status', q.status), 'Retry the queue first.');
  end if;
  if t.kind in ('create', 'delete') then
    if exists (select from penstock.service_task o where o.queue_id = q.id and o.kind in ('create', 'delete')
      and o.status in ('pending', 'running')) then
      perform penstock._fail('PS024', format('queue %L has a task in progress', q.name), jsonb_build_object('queue',
        q.name, 'status', q.status), 'Wait for that task.');
    end if;
    update penstock.service_queue r set status = case t.kind when 'create' then 'Pending' else 'Deprovisioning' end,
      error_message = null, updated_at = clock_timestamp() where r.id = q.id;
  end if;
  select s.down_since is not null into is_down from penstock.service s where s.id = q.service_id for share;
  update penstock.service_task o set status = 'pending', failures = 0, error_message = null, finished_at = null,
    waiting_since = case when is_down then clock_timestamp() end where o.id = t.id;
  if not is_down then
    perform penstock._deliver_task(t.id);
  end if;
end $$;

-- Retries the creation or the removal of a Failed queue. Locks: the row of the queue. Uses service_queue_name.
create or replace function penstock.retry_service_queue(service text, name text, created_by text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q     penstock.service_queue := penstock._service_queue(service, name);
  again text;
begin
  if q.status <> 'Failed' then
    perform penstock._fail('PS024', format('queue %L is %s, not Failed', q.name, q.status),
      jsonb_build_object('queue', q.name, 'status', q.status), 'Only a Failed queue can be retried.');
  end if;
  select t.kind into again from penstock.service_task t where t.queue_id = q.id and t.kind in ('create', 'delete')
    order by t.created_at desc limit 1;
  again := coalesce(again, 'create');
  update penstock.service_queue t set status = case again when 'create' then 'Pending' else 'Deprovisioning' end,
    error_message = null, updated_at = clock_timestamp() where t.id = q.id;
  perform penstock._request_task(q.id, again, null, created_by);
  return q.id;
end $$;

-- Removes a queue from the registry and leaves the service alone. Its tasks end. Locks: the rows of the queue and of
-- its tasks. Uses service_queue_name.
create or replace function penstock.forget_service_queue(service text, name text, removed_by text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q penstock.service_queue := penstock._service_queue(service, name);
begin
  perform penstock._end_task(t.id, 'cancelled', null, format('the queue was removed by force by %s', removed_by))
  from penstock.service_task t where t.queue_id = q.id and t.status in ('pending', 'running');
  update penstock.service_queue t set status = 'Deprovisioning', deleted_at = clock_timestamp(),
    updated_at = clock_timestamp() where t.id = q.id;
  return q.id;
end $$;

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

-- Records a failure that may be temporary. The task is tried again. Locks: the row of the task. Uses service_task_pkey.
create or replace function penstock.note_task_failure(task uuid, error_message text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.service_task set failures = failures + 1, error_message = note_task_failure.error_message
    where id = task;
$$;

-- Runs on the service and enqueues the messages of a task. If the task was executed before, returns the earlier result.
-- The row of the task and the messages are written in one transaction, so a task is executed once. Locks: the row of
-- the task, and as enqueue_many. Uses applied_task_pkey.
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
