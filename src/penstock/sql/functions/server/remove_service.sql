-- Removes the registration of a service and of its queues, by name or id. The databases of the service are not changed.
-- Locks: the rows of the service and its queues. Uses service_name.
create or replace function penstock.remove_service(service text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  found_service penstock.service := penstock._service(service);
begin
  if found_service.dsn is null then
    perform penstock._fail_value('service', service, 'a service other than local, which is this database');
  end if;
  update penstock.service s set removed_at = clock_timestamp(), dsn = '', secret = null, password_file = null,
    down_since = null where s.id = found_service.id;
  update penstock.service_queue q set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
  where q.service_id = found_service.id and q.deleted_at is null;
  perform penstock._end_task(t.id, 'failed', null, format('service %L was removed', found_service.name))
  from penstock.service_task t join penstock.service_queue q on q.id = t.queue_id
  where q.service_id = found_service.id and t.status in ('pending', 'running');
end $$;
