-- Retries the creation or the removal of a Failed queue. Locks: the row of the queue. Uses service_queue_name.
create or replace function penstock.retry_service_queue(service text, name text, created_by text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q     penstock.service_queue := penstock._service_queue(service, name);
  again text;
begin
  if q.status <> 'Failed' then
    perform penstock._fail('PS029', format('queue %L is %s, not Failed', q.name, q.status),
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
