-- Records a queue to be created on a service, and the task that creates it. Locks: the new rows. Uses
-- service_queue_name and service_task_pkey.
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
    perform penstock._fail_queue_exists(request_queue.name, format(' on service %L', s.name),
      jsonb_build_object('queue', request_queue.name, 'service', s.name), 'Use it, or delete it first.');
  end if;
  perform penstock._request_task(made, 'create', null, created_by);
  return made;
end $$;
