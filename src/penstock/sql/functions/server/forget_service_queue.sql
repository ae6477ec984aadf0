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
