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
