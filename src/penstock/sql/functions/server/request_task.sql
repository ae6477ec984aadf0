-- Requests an enqueue, or stats, on an active queue. Locks: the new rows. Uses service_queue_name.
create or replace function penstock.request_task(service text, name text, kind text, request jsonb, created_by text)
returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q penstock.service_queue := penstock._service_queue(service, name);
begin
  if q.status <> 'Active' then
    perform penstock._fail_not_active(q.name, q.status, case q.status when 'Failed' then 'See its error_message.'
      else 'Wait until it is Active.' end);
  end if;
  -- A payload that PostgreSQL does not accept as JSON is refused now, not when the task is executed.
  perform (payload #>> '{}')::jsonb from jsonb_array_elements(request -> 'payloads') payload;
  return penstock._request_task(q.id, kind, request, created_by);
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
