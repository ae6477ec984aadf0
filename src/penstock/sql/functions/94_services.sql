-- Services, their queues, and the tasks that provision them. Each request is one transaction: the row, the task and the
-- message that brings the task to a server. Locks: the rows named.

create or replace function penstock.add_service(name text, dsn text, created_by text default null) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  made uuid;
begin
  if coalesce(add_service.name, '') !~ '^[a-z0-9][a-z0-9_-]{0,62}$' then
    perform penstock._fail_value('name', add_service.name, '1 to 63 lowercase letters, digits, - and _, not beginning with - or _');
  end if;
  insert into penstock.service as s (name, dsn, created_by) values (add_service.name, add_service.dsn, add_service.created_by)
  on conflict (name) where removed_at is null do nothing returning s.id into made;
  if made is null then
    perform penstock._fail('PS023', format('a service named %L exists already', add_service.name), jsonb_build_object('service', add_service.name),
      'Give the new service another name, or remove the old one.');
  end if;
  return made;
end $$;

-- Forgets a service and its queues; what is on it stays. By its name or id.
create or replace function penstock.remove_service(service text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  found_service penstock.service := penstock._service(service);
begin
  if found_service.dsn is null then
    perform penstock._fail_value('service', service, 'a service that was added: this database itself stays');
  end if;
  update penstock.service s set removed_at = clock_timestamp(), dsn = '' where s.id = found_service.id;
  update penstock.service_queue q set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
  where q.service_id = found_service.id and q.deleted_at is null;
end $$;

create or replace function penstock._service(service text) returns penstock.service language plpgsql stable as $$
#variable_conflict use_column
declare
  s penstock.service;
begin
  select * into s from penstock.service t where service in (t.name, t.id::text) and t.removed_at is null;
  if not found then
    perform penstock._fail('PS022', format('there is no service %L', left(service, 200)), jsonb_build_object('service', left(service, 200)),
      'Add it with `penstock service add NAME DSN`; local is this database itself.');
  end if;
  return s;
end $$;

-- A queue to be made on a service, and the task that makes it.
create or replace function penstock.request_queue(
  service text, name text, database_name text, visibility_timeout_seconds integer, max_attempts integer, dlq_enabled boolean, created_by text)
returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s    penstock.service := penstock._service(service);
  made uuid;
begin
  insert into penstock.service_queue as q (service_id, name, database_name, visibility_timeout_seconds, max_attempts, dlq_enabled, status)
  values (s.id, request_queue.name, request_queue.database_name, request_queue.visibility_timeout_seconds, request_queue.max_attempts,
          request_queue.dlq_enabled, 'Pending')
  on conflict (service_id, name) where deleted_at is null do nothing returning q.id into made;
  if made is null then
    perform penstock._fail('PS002', format('queue %L exists already on service %L', request_queue.name, s.name),
      jsonb_build_object('queue', request_queue.name, 'service', s.name), 'Use it, or delete it first.');
  end if;
  perform penstock._request_task(made, 'create', null, created_by);
  return made;
end $$;

-- The queue's removal. Asked for again while it goes on, it is left to go on.
create or replace function penstock.request_removal(service text, name text, created_by text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q penstock.service_queue := penstock._service_queue(service, name);
begin
  if q.status <> 'Deprovisioning' then
    update penstock.service_queue t set status = 'Deprovisioning', error_message = null, updated_at = clock_timestamp() where t.id = q.id;
    perform penstock._request_task(q.id, 'delete', null, created_by);
  end if;
  return q.id;
end $$;

-- Enqueue or stats, on a queue that is ready for it.
create or replace function penstock.request_task(service text, name text, kind text, request jsonb, created_by text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q penstock.service_queue := penstock._service_queue(service, name);
begin
  if q.status <> 'Active' then
    perform penstock._fail('PS024', format('queue %L is %s, not Active', q.name, q.status), jsonb_build_object('queue', q.name, 'status', q.status),
      case q.status when 'Failed' then 'See its error_message.' else 'Wait until it is Active.' end);
  end if;
  -- What is no JSON to PostgreSQL is refused now, not when the task is carried out.
  perform (payload #>> '{}')::jsonb from jsonb_array_elements(request -> 'payloads') payload;
  return penstock._request_task(q.id, kind, request, created_by);
end $$;

create or replace function penstock._service_queue(service text, name text) returns penstock.service_queue language plpgsql as $$
#variable_conflict use_column
declare
  s penstock.service := penstock._service(service);
  q penstock.service_queue;
begin
  select * into q from penstock.service_queue t where t.service_id = s.id and t.name = _service_queue.name and t.deleted_at is null for update;
  if not found then
    perform penstock._fail('PS001', format('there is no queue %L on service %L', left(_service_queue.name, 200), s.name),
      jsonb_build_object('queue', left(_service_queue.name, 200), 'service', s.name), 'Create it first.');
  end if;
  return q;
end $$;

-- The tasks of one queue form a group: they are carried out in the order in which they were asked for.
create or replace function penstock._request_task(queue_id uuid, kind text, request jsonb, created_by text) returns uuid language plpgsql as $$
#variable_conflict use_column
declare
  made uuid;
begin
  if not exists (select from penstock.queue q where q.name = 'penstock.tasks') then
    -- A crash counts as an attempt; failures are counted apart, in the task.
    perform penstock.create_queue('penstock.tasks', '{"lease_seconds": 6, "max_attempts": 100, "keep_history": 1}', exist_ok => true);
  end if;
  insert into penstock.service_task as t (queue_id, kind, request, created_by)
  values (_request_task.queue_id, _request_task.kind, _request_task.request, _request_task.created_by) returning t.id into made;
  perform penstock.enqueue('penstock.tasks', jsonb_build_object('task', made), group_key => queue_id::text);
  return made;
end $$;

-- A server takes a task on. Nothing, if it was finished before: then its message is a leftover.
create or replace function penstock.begin_task(task uuid)
returns table (kind text, name text, service text, dsn text, database_name text, visibility_timeout_seconds integer, max_attempts integer,
               dlq_enabled boolean, request jsonb, failures integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update penstock.service_task t set status = 'running' where t.id = begin_task.task and t.status in ('pending', 'running');
  if not found then
    return;
  end if;
  update penstock.service_queue q set status = 'Provisioning', updated_at = clock_timestamp()
  from penstock.service_task t where t.id = begin_task.task and t.queue_id = q.id and t.kind = 'create' and q.status = 'Pending';
  return query
  select t.kind, q.name, s.name, s.dsn, q.database_name, q.visibility_timeout_seconds, q.max_attempts, q.dlq_enabled, t.request, t.failures
  from penstock.service_task t join penstock.service_queue q on q.id = t.queue_id join penstock.service s on s.id = q.service_id
  where t.id = begin_task.task;
end $$;

-- The end of a task: with a result, or with an error.
create or replace function penstock.finish_task(task uuid, result jsonb, error_message text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  done penstock.service_task;
begin
  update penstock.service_task t
  set status = case when finish_task.error_message is null then 'completed' else 'failed' end, result = finish_task.result,
      error_message = finish_task.error_message, request = null, finished_at = clock_timestamp()
  where t.id = finish_task.task and t.status in ('pending', 'running') returning * into done;
  if done.kind in ('create', 'delete') then
    update penstock.service_queue q
    set status = case when done.status = 'failed' then 'Failed' when done.kind = 'create' then 'Active' else q.status end,
        error_message = done.error_message, updated_at = clock_timestamp(),
        deleted_at = case when done.status = 'completed' and done.kind = 'delete' then clock_timestamp() else q.deleted_at end
    -- A queue whose removal was asked for in the meantime stays on its way out.
    where q.id = done.queue_id and not (done.kind = 'create' and q.status = 'Deprovisioning');
  end if;
end $$;

-- A failure that may pass; the task is tried again.
create or replace function penstock.note_task_failure(task uuid, error_message text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.service_task set failures = failures + 1, error_message = note_task_failure.error_message where id = task;
$$;

-- On the service: enqueues the messages of a task; told the same task again, says what it did the first time.
create or replace function penstock.apply_enqueue(task uuid, queue text, payloads jsonb[], delays interval[]) returns bigint[]
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids bigint[];
begin
  -- A second server with the same task waits here for the first one's end.
  insert into penstock.applied_task (task_id, result) values (task, '[]') on conflict do nothing;
  if not found then
    return array(select value::bigint from penstock.applied_task t, jsonb_array_elements_text(t.result) value where t.task_id = task);
  end if;
  ids := array(select penstock.enqueue_many(queue, payloads, delays => delays));
  update penstock.applied_task t set result = to_jsonb(ids) where t.task_id = task;
  return ids;
end $$;

-- Queues that came or went in another way than through tasks: those that are on the service but not on record are put
-- there, those on record that are gone are let go, and settings follow.
create or replace function penstock.adopt_queues(
  service text, database_name text, names text[], visibility_timeouts integer[], max_attempts integer[], dlq_enabled boolean[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.service := penstock._service(service);
begin
  update penstock.service_queue q set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
  where q.service_id = s.id and q.database_name in (adopt_queues.database_name, 'defaultdb') and q.status = 'Active'
    and q.deleted_at is null and q.name <> all (names);
  update penstock.service_queue q
  set visibility_timeout_seconds = n.visibility_timeout, max_attempts = n.max_attempts, dlq_enabled = n.dlq_enabled, updated_at = clock_timestamp()
  from unnest(names, visibility_timeouts, adopt_queues.max_attempts, adopt_queues.dlq_enabled) n (name, visibility_timeout, max_attempts, dlq_enabled)
  where q.service_id = s.id and q.name = n.name and q.status = 'Active' and q.deleted_at is null
    and (q.visibility_timeout_seconds, q.max_attempts, q.dlq_enabled) is distinct from (n.visibility_timeout, n.max_attempts, n.dlq_enabled);
  insert into penstock.service_queue (service_id, name, database_name, visibility_timeout_seconds, max_attempts, dlq_enabled, status)
  select s.id, n.name, adopt_queues.database_name, n.visibility_timeout, n.max_attempts, n.dlq_enabled, 'Active'
  from unnest(names, visibility_timeouts, adopt_queues.max_attempts, adopt_queues.dlq_enabled) n (name, visibility_timeout, max_attempts, dlq_enabled)
  where n.name !~ '^penstock\.'
  on conflict (service_id, name) where deleted_at is null do nothing;
end $$;
